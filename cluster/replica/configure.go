package replica

import (
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// configure puts in force what the view says, if something else is in force. Only workers
// call it.
func (q *Member) configure() {
	l := q.led.Load()
	if l == nil {
		return
	}
	v := q.h.cfg.Views.View()
	r, ok := v.QueueByUID(q.uid)
	if !ok {
		return
	}
	want := q.h.queueConfig(v, r)
	if l.asked != nil && *l.asked == want {
		return
	}
	pending := l.configuring.Load() > 0 // asked first: what is answered by now is in force
	asked, have := want, q.config()
	want.Rules = max(want.Rules, have.Rules) // a view may be behind
	if have != want && !q.mayConfigure(l, have, want) {
		q.configureLater(l)
		return
	}
	l.asked = &asked
	if cause := q.h.cfg.Policies.Degraded(v, r); cause != "" && cause != l.degraded { // DL-20
		q.h.cfg.Events.EmitQueue(q.uid, event.Event{Kind: event.DegradedStrategy, Cause: cause})
		l.degraded = cause
	}
	if have == want && !pending {
		q.inForce(l)
		return
	}
	configure := raftfsm.Command{Header: quorumq.AppendCommand(nil, &quorumq.Configure{Config: want})}
	l.configuring.Add(1)
	q.submit(configure, func(r quorumq.Reply, err error) {
		l.configuring.Add(-1)
		if err != nil {
			q.again(func() { l.asked = nil; q.configure() })
			return
		}
		q.inForce(l)
		if r.Count > 0 { // DL-27
			q.h.cfg.Logger.Warn("the dead letters of a queue's backlog were dropped: at-least-once ended, x-dead-letter-on-switch is drop",
				"queue", q.uid.String(), "messages", r.Count)
		}
	})
}

// mayConfigure reports whether a leader may put in force what its view says: an old view could take
// back what an earlier leader has put in force by a newer one, and with a limit that was lifted since,
// messages would go. A queue that nobody has configured yet has nothing to take back, and its
// declaration need not wait: configurations have had rules since RulesThird. But its view must have
// been confirmed in this life, for the view of before may be of any age.
func (q *Member) mayConfigure(l *Led, have, want quorumq.Config) bool {
	untouched := have == quorumq.DefaultConfig() && want.Rules >= quorumq.RulesThird
	return l.confirmed || untouched && q.h.cfg.Catalog.Serves()
}

// configureLater configures when the view is confirmed to show what the leaders before have acted on;
// once in a term, because views do not go back. Only workers call it.
func (q *Member) configureLater(l *Led) {
	if l.asking {
		return
	}
	l.asking = true
	q.h.confirms.Add(func() {
		q.box.Post(func() {
			l.confirmed = true
			q.configure()
		})
	})
}

// inForce records that a configuration is in force in the term, for which a declaration may wait.
func (q *Member) inForce(l *Led) {
	l.configured.Store(true)
	q.h.ledHere.end(q.uid)
}

// config returns the configuration that is in force in the queue's machine.
func (q *Member) config() (c quorumq.Config) {
	q.group.Read(func() { c = q.machine.Queue().Config() })
	return c
}

// queueConfig returns what a queue's machine should have in force according to a view, in the
// machine's form: the settings, and the rules of the finalised version (ADR 0016).
func (h *Host) queueConfig(v *catalog.View, r *catalog.QueueRecord) quorumq.Config {
	want := h.cfg.Policies.QueueConfig(v, r).Normal()
	want.Rules = quorumq.RulesOf(uint8(v.Version()))
	return want
}
