package grpcapi

import (
	"context"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/broker"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

type eventsServer struct {
	brokerv1.UnimplementedEventsServer
	b *broker.Broker
}

// WatchEvents tells events of all nodes until the caller ends the stream.
func (s *eventsServer) WatchEvents(req *brokerv1.WatchEventsRequest, stream grpc.ServerStreamingServer[brokerv1.WatchEventsResponse]) error {
	ctx, cancel := living(stream.Context())
	defer cancel()
	err := s.b.WatchEvents(ctx, broker.WatchEvents{
		VHost: req.GetVhost(), Kinds: req.GetKinds(), Name: req.GetName(), Cursor: req.GetCursor(), History: req.GetHistory(),
	}, func(events []broker.Event, cursor string) error {
		out := &brokerv1.WatchEventsResponse{Cursor: cursor}
		for i := range events {
			e := &events[i]
			out.Events = append(out.Events, &brokerv1.Event{
				Kind: string(e.Kind), AtMs: e.AtMs, Node: string(e.Node), Vhost: e.VHost, Name: e.Name,
				Cause: e.Cause, Detail: e.Detail, Count: e.Count,
			})
		}
		return stream.Send(out)
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
