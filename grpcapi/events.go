package grpcapi

import (
	"context"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/watch"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// eventsServer serves Events over the broker; it keeps no state.
type eventsServer struct {
	brokerv1.UnimplementedEventsServer
	b *broker.Broker
}

// WatchEvents sends events of all nodes until the caller ends the stream.
func (s *eventsServer) WatchEvents(req *brokerv1.WatchEventsRequest, stream grpc.ServerStreamingServer[brokerv1.WatchEventsResponse]) error {
	ctx, cancel := living(stream.Context())
	defer cancel()
	err := s.b.Events.Watch(ctx, watch.Choice{
		VHost: req.GetVhost(), Kinds: req.GetKinds(), Name: req.GetName(), Cursor: req.GetCursor(), History: req.GetHistory(),
		User: req.GetUser(), Operation: req.GetOperation(),
	}, func(events []watch.Event, cursor string) error {
		out := &brokerv1.WatchEventsResponse{Cursor: cursor}
		for i := range events {
			out.Events = append(out.Events, toEvent(&events[i]))
		}
		return stream.Send(out)
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// TailAudit returns the newest audit records.
func (s *eventsServer) TailAudit(ctx context.Context, req *brokerv1.TailAuditRequest) (*brokerv1.TailAuditResponse, error) {
	w := watch.Choice{VHost: req.GetVhost(), User: req.GetUser(), Operation: req.GetOperation()}
	tail, err := s.b.Events.Tail(ctx, w, int(min(req.GetLimit(), watch.MaxAuditTail)))
	if err != nil {
		return nil, err
	}
	out := &brokerv1.TailAuditResponse{Cursor: tail.Cursor, Silent: tail.Silent, Lost: tail.Lost}
	for i := range tail.Events {
		out.Events = append(out.Events, toEvent(&tail.Events[i]))
	}
	return out, nil
}

// toEvent converts an event; the audit part is there for audit records alone.
func toEvent(e *watch.Event) *brokerv1.Event {
	out := &brokerv1.Event{
		Kind: string(e.Kind), AtMs: e.AtMs, Node: string(e.Node), Vhost: e.VHost, Name: e.Name,
		Cause: e.Cause, Detail: e.Detail, Count: e.Count,
	}
	a := e.Audit
	if a == nil {
		return out
	}
	out.Audit = &brokerv1.Audit{
		User: a.User, Mechanism: a.Mechanism, Protocol: a.Protocol, Address: a.Address, Client: a.Client,
		Operation: a.Operation, Object: a.Object, Outcome: a.Outcome,
	}
	for _, c := range a.Changes {
		out.Audit.Changes = append(out.Audit.Changes, &brokerv1.AuditChange{Field: c.Field, Before: c.Before, After: c.After})
	}
	return out
}
