package deadletter

import (
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// Explanation describes where a message that leaves its queue would go (G-20).
type Explanation struct {
	Rule    Rule            // in force for the queue
	Message message.Message // as it would arrive; zero without a rule or exchange
	Targets []id.QueueUID   // ascending
	Cyclic  []id.QueueUID   // routed to and left out (DL-41)
	Cause   Cause           // why there are no targets; CauseNone: there are some
	Why     string          // the same, as text
}

// Explain routes a message by the view as the Forwarder would if the message had left the queue as
// described by d. d.Body only matters for exchanges that choose one of their bindings by chance.
func Explain(v *catalog.View, rt Router, rec *catalog.QueueRecord, m *message.Message, d quorumq.Discarded) Explanation {
	rule := rt.Rule(v, rec)
	if cause, text := barred(v, rec, rule, &d); cause != CauseNone {
		return Explanation{Rule: rule, Cause: cause, Why: text}
	}
	k := resolver{rt: rt, view: v, rec: rec, rule: rule}
	k.routeMessage(&d, m)
	r := &k.way
	return Explanation{Rule: rule, Message: r.msg, Targets: r.targets, Cyclic: r.cyclic, Cause: r.cause, Why: r.text}
}
