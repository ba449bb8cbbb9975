package explain

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
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

// Explained is the answer of Routing: where a message would go (G-20).
type Explained struct {
	Queues []RoutedQueue
	Steps  []RoutingStep
}

// Routing finds out where such a message would go if it were published now, and why it would not go elsewhere.
// For an exchange that takes any one of its bindings, the answer shows one that it may take. A caller who may not see
// the whole vhost must be allowed to see the exchange, and gets only the queues that it may see (VH-12).
func (ex *Explainer) Routing(ctx context.Context, vhost, exchange string, keys []string, headers message.Table) (Explained, error) {
	seen, err := ex.permissions.Sight(ctx, vhost)
	if err != nil {
		return Explained{}, err
	}
	if !seen.Whole() {
		if err := ex.permissions.PermitAny(ctx, permission.Exchange(vhost, exchange)); err != nil {
			return Explained{}, err
		}
	}
	v, err := ex.serving.ViewOf(vhost)
	if err != nil {
		return Explained{}, err
	}
	e, err := ex.explain(v, vhost, exchange, &catalog.Publication{
		Keys: keys, Headers: headers, Properties: &message.Properties{}, Local: ex.leads, Alternate: ex.alternate,
	})
	if e.Queues = seenQueues(seen, e.Queues); !seen.Whole() {
		e.Steps = nil
	}
	return e, err
}

// explain is Routing for a caller who may see everything.
func (ex *Explainer) explain(v *catalog.View, vhost, exchange string, p *catalog.Publication) (Explained, error) {
	e, err := v.Explain(vhost, exchange, p)
	if err != nil {
		return Explained{}, failure.Translate(err, failure.Error{})
	}
	out := Explained{Queues: ex.routedQueues(v, &e, e.Queues)}
	for i := range e.Steps {
		out.Steps = append(out.Steps, step(&e, &e.Steps[i]))
	}
	return out, nil
}

// routedQueues describes queues, with the path to each and the settings in force. It leaves out those that were deleted
// meanwhile.
func (ex *Explainer) routedQueues(v *catalog.View, e *catalog.Explanation, uids []id.QueueUID) (out []RoutedQueue) {
	for _, uid := range uids {
		q, ok := v.QueueByUID(uid)
		if !ok {
			continue
		}
		user, operator := ex.policies.Queue(v, q)
		r := RoutedQueue{
			Name: q.Name, Policy: policy.NameOf(user), OperatorPolicy: policy.NameOf(operator),
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
