package watch

import (
	"github.com/quorate/quorate/broker/limits"
	"github.com/quorate/quorate/broker/names"
	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/cluster/event"
)

// seesEvent reports whether an event is about something that the caller may see. Only callers who
// see the whole vhost get events of bindings and of the vhost itself, because these have no name
// for a pattern to match.
func seesEvent(s permission.Sight, e *event.Event) bool {
	if e.Kind == event.Missed {
		return true
	}
	if s.Whole() {
		return !names.IsReply(e.Name)
	}
	switch e.Kind {
	case event.ExchangeCreated, event.ExchangeDeleted:
		return s.Sees(permission.Exchange(e.VHost, e.Name))
	case event.QueueCreated, event.QueueDeleted, event.QueueDeleting, event.QueueChanged, event.MemberAdded, event.MemberRemoved,
		event.LeaderChanged, event.QueueFull, event.QueueNotFull, event.DeadLetterBlocked, event.DeadLetterUnblocked,
		event.ConsumerTimeout, event.DegradedStrategy, event.MessagesDropped:
		return s.Sees(permission.Queue(e.VHost, e.Name))
	case event.QuotaReached, event.QuotaOver:
		return e.Detail == limits.ScopeQueue.String() && s.Sees(permission.Queue(e.VHost, e.Name))
	default:
		return false
	}
}
