package grpcapi

import (
	"errors"
	"io"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/backups"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// backupsServer serves Backups over the broker; it keeps no state.
type backupsServer struct {
	brokerv1.UnimplementedBackupsServer
	b *broker.Broker
}

// ExportQueue sends the blocks of a copy.
func (s *backupsServer) ExportQueue(req *brokerv1.ExportQueueRequest, stream grpc.ServerStreamingServer[brokerv1.ExportQueueResponse]) error {
	return s.b.Backups.Export(stream.Context(), vhostOf(req.GetVhost()), req.GetQueue(), req.GetHeadOnly(), func(block []byte) error {
		return stream.Send(&brokerv1.ExportQueueResponse{Block: block})
	})
}

// RestoreQueue receives the target and the blocks, and sends progress and outcome.
func (s *backupsServer) RestoreQueue(stream grpc.BidiStreamingServer[brokerv1.RestoreQueueRequest, brokerv1.RestoreQueueResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	t := first.GetTarget()
	if t == nil {
		return invalid("queue", "target", "", "must come first, in a request of its own")
	}
	to := backups.Target{VHost: vhostOf(t.GetVhost()), Queue: t.GetQueue(), DryRun: t.GetDryRun()}
	if len(t.GetRun()) != len(to.Run) {
		return invalid("queue", "run", "", "want 16 random bytes")
	}
	copy(to.Run[:], t.GetRun())
	audit.NotesOf(stream.Context()).Note(audit.Change{Field: "queue", After: to.VHost + " " + to.Queue})
	next := func() ([]byte, error) {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if len(r.GetBlock()) == 0 {
			return nil, invalid("queue", "block", "", "is empty")
		}
		return r.GetBlock(), nil
	}
	send := func(p backups.Progress, done bool) error {
		return stream.Send(&brokerv1.RestoreQueueResponse{Stored: p.Stored, Refused: p.Refused, Done: done})
	}
	p, err := s.b.Backups.Restore(stream.Context(), to, next, func(p backups.Progress) error { return send(p, false) })
	if err != nil {
		return err
	}
	return send(p, true)
}
