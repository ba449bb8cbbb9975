package broker

import (
	"context"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/event"
)

// sight is what a caller sees of a vhost, or of all (VH-12). A caller with a tag sees the whole
// vhost, anybody else the queues and exchanges that one of its patterns matches.
type sight struct {
	b     *Broker
	vhost string // "": all
	grant *grant // nil: everything
}

// sight returns what the context's caller sees in a vhost, "" for all of them. Errors:
// AccessRefused for who has neither the tag monitoring nor a permission in the vhost.
func (b *Broker) sight(ctx context.Context, vhost string) (sight, error) {
	s := sight{b: b, vhost: vhost}
	refused := b.Require(ctx, TagMonitoring)
	if refused == nil {
		return s, nil
	}
	who, err := b.Who(ctx)
	if err != nil || vhost == "" {
		return s, refused
	}
	v := b.view()
	g := b.grantIn(v, who, vhost)
	if g == nil {
		return s, refused
	}
	if !is(who.user, TagManagement) {
		s.grant = g
	}
	return s, nil
}

// wholeSight is sight for what has no name that a pattern could match.
func (b *Broker) wholeSight(ctx context.Context, vhost string) error {
	s, err := b.sight(ctx, vhost)
	if err != nil || s.whole() {
		return err
	}
	return b.Require(ctx, TagManagement)
}

// whole tells that everything in the vhost is seen.
func (s sight) whole() bool { return s.grant == nil }

// sees tells whether a queue or exchange is seen.
func (s sight) sees(t thing) bool {
	if s.vhost != "" && t.vhost != s.vhost || t.kind == "queue" && isReplyQueue(t.name) {
		return false
	}
	for r := configure; !s.whole() && r <= read; r++ {
		if s.b.matches(s.grant, r, t.matched()) {
			return true
		}
	}
	return s.whole()
}

// seesBinding tells whether both ends of a binding are seen.
func (s sight) seesBinding(x *catalog.Binding) bool {
	to := queueOf(x.VHost, x.Destination)
	if x.DestinationKind == catalog.ToExchange {
		to.kind = "exchange"
	}
	return s.sees(exchangeOf(x.VHost, x.Source)) && s.sees(to)
}

// seesEvent tells whether an event is about what is seen. Those of bindings and of the vhost
// itself have no name that a pattern is for.
func (s sight) seesEvent(e *Event) bool {
	if e.Kind == event.Missed {
		return true
	}
	if s.whole() {
		return !isReplyQueue(e.Name)
	}
	switch e.Kind {
	case event.ExchangeCreated, event.ExchangeDeleted:
		return s.sees(exchangeOf(e.VHost, e.Name))
	case event.QueueCreated, event.QueueDeleted, event.QueueDeleting, event.QueueChanged, event.MemberAdded, event.MemberRemoved,
		event.LeaderChanged, event.QueueFull, event.QueueNotFull, event.DeadLetterBlocked, event.DeadLetterUnblocked,
		event.ConsumerTimeout, event.DegradedStrategy, event.MessagesDropped:
		return s.sees(queueOf(e.VHost, e.Name))
	default:
		return false
	}
}

// seenQueues leaves out queues that are not seen, and how a message gets to the others.
func (s sight) seenQueues(all []RoutedQueue) (seen []RoutedQueue) {
	for i := range all {
		if q := &all[i]; s.sees(queueOf(s.vhost, q.Name)) {
			if !s.whole() {
				q.Path = nil
			}
			seen = append(seen, *q)
		}
	}
	return seen
}
