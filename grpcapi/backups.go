package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/backups"
	"github.com/quorate/quorate/broker/operators"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// backupsServer serves Backups over the broker; it keeps no state.
type backupsServer struct {
	brokerv1.UnimplementedBackupsServer
	b *broker.Broker
}

// ExportQueue sends the blocks of a copy.
func (s *backupsServer) ExportQueue(req *brokerv1.ExportQueueRequest, stream grpc.ServerStreamingServer[brokerv1.ExportQueueResponse]) error {
	return s.b.Backups.Export(stream.Context(), vhostOf(req.GetVhost()), req.GetQueue(), req.GetHeadOnly(), func(block []byte, done func()) error {
		return stream.SendMsg(&exportedBlock{block: block, done: done})
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

// maxFollowedTarget limits the description of a job, in bytes.
const maxFollowedTarget = 1024

// FollowJob shows a job of the caller as an operation.
func (s *backupsServer) FollowJob(stream grpc.BidiStreamingServer[brokerv1.FollowJobRequest, brokerv1.FollowJobResponse]) error {
	ctx, cancel := living(stream.Context())
	defer cancel()
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	job := first.GetJob()
	if job == nil {
		return invalid("operation", "job", "", "must come first, in a request of its own")
	}
	if n := len(job.GetTarget()); n == 0 || n > maxFollowedTarget {
		return invalid("operation", "target", "", fmt.Sprintf("want 1 to %d bytes", maxFollowedTarget))
	}
	kind := operators.KindBackup
	switch job.GetKind() {
	case brokerv1.FollowedJobKind_FOLLOWED_JOB_KIND_BACKUP:
	case brokerv1.FollowedJobKind_FOLLOWED_JOB_KIND_RESTORE:
		kind = operators.KindRestore
	default:
		return invalid("operation", "kind", job.GetKind().String(), "want backup or restore")
	}
	f, err := s.b.Operators.Follow(ctx, kind, job.GetTarget())
	if err != nil {
		return err
	}
	defer f.Gone()
	if err := stream.Send(&brokerv1.FollowJobResponse{Operation: f.ID}); err != nil {
		return err
	}
	received := make(chan error, 1)
	go func() { received <- followed(stream, f) }()
	select {
	case err = <-received:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-f.Cancelled:
	}
	if err := stream.Send(&brokerv1.FollowJobResponse{Operation: f.ID, Cancelled: true}); err != nil {
		return err
	}
	select {
	case err = <-received:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// followed takes the progress of a job until its end.
func followed(stream grpc.BidiStreamingServer[brokerv1.FollowJobRequest, brokerv1.FollowJobResponse], f *operators.Followed) error {
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if p := r.GetProgress(); p != nil {
			f.Report(operators.OperationProgress{Phase: p.GetPhase(), Done: p.GetDone(), Total: p.GetTotal(), Unit: p.GetUnit(), Detail: p.GetDetail()})
		}
		if end := r.GetEnd(); end != nil {
			var failed error
			if end.GetError() != "" {
				failed = errors.New(end.GetError())
			}
			f.End(failed)
			return nil
		}
	}
}
