package explain

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/messages"
	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/cluster/leader"
	"github.com/quorate/quorate/deadletter"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/quorumq"
)

// DeadLetterQuestion names a queue, and perhaps a message in it.
type DeadLetterQuestion struct {
	VHost, Queue string
	Number       uint64       // of a message, as Peek shows it; 0: ask for a message with Keys
	Part         quorumq.Part // the part of the queue that holds the message
	Reason       string       // "": rejected; a message of the backlog keeps its own
	Keys         []string
}

// DeadLetterAnswer says where a dead letter would go, or why it would go nowhere.
type DeadLetterAnswer struct {
	Strategy   string // disabled, at-most-once or at-least-once
	Exchange   string
	Keys       []string
	Targets    []RoutedQueue
	Cyclic     []string
	Cause, Why string // cause is none if there are targets
	Settings   []Setting
	Steps      []RoutingStep
	Warnings   []string
}

// DeadLetter finds out where a message of the queue would go if it died now (G-20). It routes the message as the
// queue's forwarder does. A caller who may not see the whole vhost gets only the queues that it may see (VH-12).
func (ex *Explainer) DeadLetter(ctx context.Context, d DeadLetterQuestion) (DeadLetterAnswer, error) {
	out, err := ex.explainDeadLetter(ctx, d)
	if err != nil {
		return out, err
	}
	seen, err := ex.permissions.Sight(ctx, d.VHost)
	if err == nil && !seen.Whole() {
		out.Targets, out.Steps = seenQueues(seen, out.Targets), nil
		out.Cyclic = slices.DeleteFunc(out.Cyclic, func(name string) bool { return !seen.Sees(permission.Queue(d.VHost, name)) })
	}
	return out, err
}

// explainDeadLetter is DeadLetter for a caller who may see the whole vhost.
func (ex *Explainer) explainDeadLetter(ctx context.Context, d DeadLetterQuestion) (DeadLetterAnswer, error) {
	q, about, err := ex.queues.ToRead(ctx, d.VHost, d.Queue)
	if err != nil {
		return DeadLetterAnswer{}, err
	}
	c := ex.cluster
	v := c.View()
	rec, err := serving.LookUp(v, d.VHost, d.Queue)
	if err != nil {
		return DeadLetterAnswer{}, err
	}
	m, left, err := ex.mortal(ctx, c, q, d, about)
	if err != nil {
		return DeadLetterAnswer{}, err
	}
	x := deadletter.Explain(v, c.DeadLetterRouter(), rec, m, left)
	out := ex.deadLetterSettings(v, rec)
	out.Exchange, out.Keys = x.Rule.Exchange, x.Message.RoutingKeys
	out.Cause, out.Why = x.Cause.String(), x.Why
	for _, uid := range x.Cyclic {
		if t, ok := v.QueueByUID(uid); ok {
			out.Cyclic = append(out.Cyclic, t.Name)
		}
	}
	if left.To != nil { // a moved message does not pass the queue's dead-letter exchange
		out.Targets = ex.routedQueues(v, &catalog.Explanation{}, x.Targets)
		return out, nil
	}
	if !x.Rule.Enabled {
		return out, nil
	}
	if _, ok := v.Exchange(d.VHost, x.Rule.Exchange); !ok {
		return out, nil
	}
	p := deadletter.Publication(c.DeadLetterRouter(), rec, &left, &x.Message)
	e, err := v.Explain(d.VHost, x.Rule.Exchange, &p)
	if err != nil {
		return out, failure.Translate(err, about)
	}
	out.Targets = ex.routedQueues(v, &e, x.Targets)
	for i := range e.Steps {
		out.Steps = append(out.Steps, step(&e, &e.Steps[i]))
	}
	return out, nil
}

// mortal returns the message that is asked about, and how it would leave its queue.
func (ex *Explainer) mortal(
	ctx context.Context, c *cluster.Cluster, q *gateway.Queue, d DeadLetterQuestion, about failure.Error,
) (*message.Message, quorumq.Discarded, error) {
	left := quorumq.Discarded{At: quorumq.Time(c.View().Now()), Reason: quorumq.ReasonRejected}
	if d.Reason != "" {
		if left.Reason = reasonOf(d.Reason); left.Reason == 0 {
			about.Class, about.Arg, about.Value = failure.PreconditionFailed, "reason", strconv.Quote(d.Reason)
			about.Reason = "want rejected, expired, maxlen, delivery_limit or queue_deleted"
			return nil, left, &about
		}
	}
	if d.Number == 0 {
		if len(d.Keys) == 0 {
			d.Keys = []string{d.Queue}
		}
		return &message.Message{RoutingKeys: d.Keys}, left, nil
	}
	ask := leader.Peek{From: quorumq.PeekFrom{Part: d.Part, Number: d.Number}, Limit: 1, Numbers: []uint64{d.Number}, Detail: leader.PeekHeads}
	for looked, more := 0, true; more && looked < messages.MaxPeekLooked; {
		page, err := c.Leaders().Peek(ctx, q.UID(), ask)
		if err != nil {
			return nil, left, failure.Translate(err, about)
		}
		if len(page.Messages) == 0 {
			ask.From, more = page.Next, page.More
			looked += page.Looked
			continue
		}
		p := &page.Messages[0]
		m, err := p.Decode()
		if err != nil {
			return nil, left, failure.Translate(err, about)
		}
		left.To, left.DeliveryCount, left.AcquiredCount = p.To, p.DeliveryCount, p.AcquiredCount
		if d.Part == quorumq.PartBacklog {
			left.Reason, left.At = p.Reason, p.At
		}
		return &m, left, nil
	}
	about.Class, about.Arg, about.Value = failure.NotFound, "number", fmt.Sprint(d.Number)
	about.Reason = "has no message with this number there, or not any more; peek shows what it has"
	return nil, left, &about
}

// reasonOf returns the reason with the name that x-death uses, 0 if there is none.
func reasonOf(word string) quorumq.Reason {
	for r := quorumq.ReasonRejected; r <= quorumq.LastReason; r++ {
		if r.String() == word {
			return r
		}
	}
	return 0
}

// deadLetterSettings lists the dead-letter settings in force, with the origin of each.
func (ex *Explainer) deadLetterSettings(v *catalog.View, rec *catalog.QueueRecord) DeadLetterAnswer {
	out := DeadLetterAnswer{Strategy: "disabled"}
	e := ex.policies.InForce(v, rec)
	if s, ok := e.EffectiveStrategy(); ok {
		out.Strategy = string(s)
	}
	out.Warnings = e.Warnings
	user, operator := ex.policies.Queue(v, rec)
	for _, s := range policy.Sources(rec.Arguments, user, operator) {
		if strings.HasPrefix(s.Arg, argument.DeadLetters) || s.Arg == argument.Overflow || s.Arg == argument.OnDelete {
			out.Settings = append(out.Settings, s)
		}
	}
	return out
}
