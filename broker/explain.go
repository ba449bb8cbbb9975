package broker

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/cluster/leader"
	"github.com/quorate/quorate/deadletter"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/quorumq"
)

// Setting is a setting in force, with its origin.
type Setting = policy.Source

// RoutedQueue is a queue that a message would go to.
type RoutedQueue struct {
	Name                   string
	Path                   []string // the bindings that lead to it, the first one first
	Policy, OperatorPolicy string   // in force; "": none
	Settings               []Setting
}

// RoutingStep is an exchange that a message passes.
type RoutingStep struct {
	Exchange, Type string
	Via            string // the binding or exchange that led here; "" for the first step
	Missing        bool   // there is no such exchange
	Taken          []string
	Misses         []RoutingMiss // the nearest ones first, at most catalog.MaxMisses
	MissCount      int
}

// RoutingMiss is a binding that does not match, with the reason.
type RoutingMiss struct{ Binding, Why string }

// Explained is the answer of ExplainRouting: where a message would go (G-20).
type Explained struct {
	Queues []RoutedQueue
	Steps  []RoutingStep
}

// ExplainRouting finds out where such a message would go if it were published now, and why it would not go elsewhere.
// For an exchange that takes any one of its bindings, the answer shows one that it may take. A caller who may not see
// the whole vhost must be allowed to see the exchange, and gets only the queues that it may see (VH-12).
func (b *Broker) ExplainRouting(ctx context.Context, vhost, exchange string, keys []string, headers message.Table) (Explained, error) {
	seen, err := b.Permissions.Sight(ctx, vhost)
	if err != nil {
		return Explained{}, err
	}
	if !seen.Whole() {
		if err := b.Permissions.PermitAny(ctx, permission.Exchange(vhost, exchange)); err != nil {
			return Explained{}, err
		}
	}
	v, err := b.Serving.ViewOf(vhost)
	if err != nil {
		return Explained{}, err
	}
	e, err := b.explain(v, vhost, exchange, &catalog.Publication{
		Keys: keys, Headers: headers, Properties: &message.Properties{}, Local: b.leads, Alternate: b.alternate,
	})
	if e.Queues = seenQueues(seen, e.Queues); !seen.Whole() {
		e.Steps = nil
	}
	return e, err
}

// explain is ExplainRouting for a caller who may see everything.
func (b *Broker) explain(v *catalog.View, vhost, exchange string, p *catalog.Publication) (Explained, error) {
	e, err := v.Explain(vhost, exchange, p)
	if err != nil {
		return Explained{}, failure.Translate(err, failure.Error{})
	}
	out := Explained{Queues: b.routedQueues(v, &e, e.Queues)}
	for i := range e.Steps {
		out.Steps = append(out.Steps, step(&e, &e.Steps[i]))
	}
	return out, nil
}

// routedQueues describes queues, with the path to each and the settings in force. It leaves out those that were deleted
// meanwhile.
func (b *Broker) routedQueues(v *catalog.View, e *catalog.Explanation, uids []id.QueueUID) (out []RoutedQueue) {
	for _, uid := range uids {
		q, ok := v.QueueByUID(uid)
		if !ok {
			continue
		}
		user, operator := b.policies.Queue(v, q)
		r := RoutedQueue{
			Name: q.Name, Policy: policyName(user), OperatorPolicy: policyName(operator),
			Settings: policy.Sources(q.Arguments, user, operator),
		}
		for _, x := range e.Path(q.Name) {
			r.Path = append(r.Path, bindingText(x))
		}
		out = append(out, r)
	}
	return out
}

// step describes s, an exchange on the way. It needs all steps of e, because a step names others by their index.
func step(e *catalog.Explanation, s *catalog.RouteStep) RoutingStep {
	out := RoutingStep{Exchange: s.Name, Missing: s.Exchange == nil, MissCount: s.MissCount}
	if s.Exchange != nil {
		out.Type = string(s.Exchange.Type)
	}
	switch {
	case s.Binding != nil:
		out.Via = bindingText(s.Binding)
	case s.From >= 0:
		out.Via = fmt.Sprintf("alternate exchange of %q", e.Steps[s.From].Name)
	}
	for _, x := range s.Taken {
		out.Taken = append(out.Taken, bindingText(x))
	}
	for _, m := range s.Misses {
		out.Misses = append(out.Misses, RoutingMiss{bindingText(m.Binding), m.Why})
	}
	return out
}

// bindingText shows a binding in one line.
func bindingText(x *catalog.Binding) string {
	s := fmt.Sprintf("exchange %q → ", x.Source)
	if x.DestinationKind == catalog.ToExchange {
		s += "exchange "
	} else {
		s += "queue "
	}
	s += fmt.Sprintf("%q, key %q", x.Destination, x.Key)
	for _, a := range x.Arguments {
		s += fmt.Sprintf(", %s = %s", a.Name, a.Value)
	}
	return s
}

// DeadLetterQuestion names a queue, and perhaps a message in it.
type DeadLetterQuestion struct {
	VHost, Queue string
	Number       uint64 // of a message, as Peek shows it; 0: ask for a message with Keys
	Part         Part   // the part of the queue that holds the message
	Reason       string // "": rejected; a message of the backlog keeps its own
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

// ExplainDeadLetter finds out where a message of the queue would go if it died now (G-20). It routes the message as the
// queue's forwarder does. A caller who may not see the whole vhost gets only the queues that it may see (VH-12).
func (b *Broker) ExplainDeadLetter(ctx context.Context, d DeadLetterQuestion) (DeadLetterAnswer, error) {
	out, err := b.explainDeadLetter(ctx, d)
	if err != nil {
		return out, err
	}
	seen, err := b.Permissions.Sight(ctx, d.VHost)
	if err == nil && !seen.Whole() {
		out.Targets, out.Steps = seenQueues(seen, out.Targets), nil
		out.Cyclic = slices.DeleteFunc(out.Cyclic, func(name string) bool { return !seen.Sees(permission.Queue(d.VHost, name)) })
	}
	return out, err
}

// explainDeadLetter is ExplainDeadLetter for a caller who may see the whole vhost.
func (b *Broker) explainDeadLetter(ctx context.Context, d DeadLetterQuestion) (DeadLetterAnswer, error) {
	q, about, err := b.queueToRead(ctx, d.VHost, d.Queue)
	if err != nil {
		return DeadLetterAnswer{}, err
	}
	c := b.cluster
	v := c.View()
	rec, err := serving.LookUp(v, d.VHost, d.Queue)
	if err != nil {
		return DeadLetterAnswer{}, err
	}
	m, left, err := b.mortal(ctx, c, q, d, about)
	if err != nil {
		return DeadLetterAnswer{}, err
	}
	x := deadletter.Explain(v, c.DeadLetterRouter(), rec, m, left)
	out := b.deadLetterSettings(v, rec)
	out.Exchange, out.Keys = x.Rule.Exchange, x.Message.RoutingKeys
	out.Cause, out.Why = x.Cause.String(), x.Why
	for _, uid := range x.Cyclic {
		if t, ok := v.QueueByUID(uid); ok {
			out.Cyclic = append(out.Cyclic, t.Name)
		}
	}
	if left.To != nil { // a moved message does not pass the queue's dead-letter exchange
		out.Targets = b.routedQueues(v, &catalog.Explanation{}, x.Targets)
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
	out.Targets = b.routedQueues(v, &e, x.Targets)
	for i := range e.Steps {
		out.Steps = append(out.Steps, step(&e, &e.Steps[i]))
	}
	return out, nil
}

// mortal returns the message that is asked about, and how it would leave its queue.
func (b *Broker) mortal(
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
	for looked, more := 0, true; more && looked < MaxPeekLooked; {
		page, err := c.Leaders().Peek(ctx, q.UID(), ask)
		if err != nil {
			return nil, left, failure.Translate(err, about)
		}
		if len(page.Messages) == 0 {
			ask.From, more = page.Next, page.More
			looked += page.Looked
			continue
		}
		p, err := peeked(&page.Messages[0])
		if err != nil {
			return nil, left, failure.Translate(err, about)
		}
		left.To, left.DeliveryCount, left.AcquiredCount = page.Messages[0].To, p.DeliveryCount, p.AcquiredCount
		if d.Part == PartBacklog {
			left.Reason, left.At = page.Messages[0].Reason, page.Messages[0].At
		}
		return &p.Message, left, nil
	}
	about.Class, about.Arg, about.Value = failure.NotFound, "number", fmt.Sprint(d.Number)
	about.Reason = "has no message with this number there, or not any more; peek shows what it has"
	return nil, left, &about
}

// reasonOf returns the reason with the name that x-death uses, or 0.
func reasonOf(word string) quorumq.Reason {
	for r := quorumq.ReasonRejected; r <= quorumq.LastReason; r++ {
		if r.String() == word {
			return r
		}
	}
	return 0
}

// deadLetterSettings lists the dead-letter settings in force, with the origin of each.
func (b *Broker) deadLetterSettings(v *catalog.View, rec *catalog.QueueRecord) DeadLetterAnswer {
	out := DeadLetterAnswer{Strategy: "disabled"}
	e := b.policies.InForce(v, rec)
	if s, ok := e.EffectiveStrategy(); ok {
		out.Strategy = string(s)
	}
	out.Warnings = e.Warnings
	user, operator := b.policies.Queue(v, rec)
	for _, s := range policy.Sources(rec.Arguments, user, operator) {
		if strings.HasPrefix(s.Arg, argument.DeadLetters) || s.Arg == argument.Overflow || s.Arg == argument.OnDelete {
			out.Settings = append(out.Settings, s)
		}
	}
	return out
}

// seenQueues leaves out queues that the caller may not see. For a caller who may not see the whole vhost it also
// removes the paths, because they can name hidden exchanges.
func seenQueues(s permission.Sight, all []RoutedQueue) (seen []RoutedQueue) {
	for i := range all {
		if q := &all[i]; s.Sees(permission.Queue(s.VHost, q.Name)) {
			if !s.Whole() {
				q.Path = nil
			}
			seen = append(seen, *q)
		}
	}
	return seen
}
