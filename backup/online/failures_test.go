package online

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/backup/archive"
	"github.com/quorate/quorate/client"
)

// large fills a queue so that its copy has many blocks, and returns how many messages it has.
func (x *cluster) large(queue string) int {
	x.t.Helper()
	const messages = 400
	x.declare(queue, nil)
	p, err := x.c.Publisher(client.PublisherConfig{})
	x.must(err)
	for i := range messages {
		body := make([]byte, 20_000)
		copy(body, fmt.Sprint(i))
		x.must(p.PublishAsync(x.at, client.Message{RoutingKey: queue, Body: body}, func(_ client.Result, err error) {
			if err != nil {
				x.t.Error(err)
			}
		}))
	}
	x.must(p.Flush(x.at))
	return messages
}

// create makes a backup of a queue in a directory, and returns how many different messages it has. meanwhile is called
// once some of the queue was copied.
func (x *cluster) create(queue string, meanwhile func()) int {
	x.t.Helper()
	l := archive.Location{Name: filepath.Join(x.t.TempDir(), "b")}
	store, err := l.Create(x.at)
	x.must(err)
	done := false
	job := Create{Client: x.c, Queues: []string{queue}, Store: store, Plan: archive.Manifest{VHost: "/"}, Seen: func(p Progress) {
		if !done && p.Messages > 0 {
			done = true
			meanwhile()
		}
	}}
	_, err = job.Run(x.at)
	x.must(err)
	r := x.open(l)
	x.must(r.Verify(x.at, func(*archive.Queue) {}))
	in := map[string]int{}
	bodies(x.at, x.t, r, &r.Manifest.Queues[0], in)
	x.must(r.Close())
	if !done {
		x.t.Error("nothing happened meanwhile")
	}
	return len(in)
}

// A copy is whole though the queue's leader changes, or the members that are read leave the queue, while it is made.
func TestChangesMeanwhile(t *testing.T) {
	x := start(t)
	want := x.large("full")
	queue := func() client.QueueInfo {
		q, err := x.c.GetQueue(x.at, client.QueueRef{Name: "full"})
		x.must(err)
		return q
	}
	if got := x.create("full", func() {
		q := queue()
		to := q.Members[(slices.Index(q.Members, q.Leader)+1)%len(q.Members)]
		for queue().Leader != to { // a node refuses this for a moment after an election
			_ = x.c.TransferLeadership(x.at, client.TransferLeadershipRequest{Queue: "full", Node: to})
			x.must(x.at.Err())
		}
	}); got != want {
		t.Errorf("the leader changed: %d messages of %d", got, want)
	}
	if got := x.create("full", func() {
		q := queue()
		for _, m := range q.Members {
			if m == q.Leader {
				continue
			}
			started, err := x.c.RemoveMember(x.at, client.RemoveMemberRequest{Queue: "full", Node: m})
			x.must(err)
			end, err := x.c.WatchOperation(x.at, started.Operation.ID, nil)
			if err != nil || end.State != client.OperationDone {
				t.Fatalf("member %s is not removed: %+v, %v", m, end, err)
			}
		}
	}); got != want {
		t.Errorf("members were removed: %d messages of %d", got, want)
	}
}

// operation returns an operation of a kind, when it is as it should be.
func (x *cluster) operation(kind string, so func(*client.Operation) bool) client.Operation {
	x.t.Helper()
	for {
		all, err := client.Collect(x.c.Operations(x.at, client.ListOperationsRequest{}))
		var silent *client.SilentNodesError
		if err != nil && !errors.As(err, &silent) {
			x.t.Fatal(err)
		}
		for i := range slices.Backward(all) {
			if all[i].Kind == kind && so(&all[i]) {
				return all[i]
			}
		}
		if x.at.Err() != nil {
			x.t.Fatalf("no operation is as it should be: %+v", all)
		}
	}
}

// A job is shown as an operation with its progress, which can be cancelled; it ends with its outcome, with its client, and
// moves to another node when its node is lost.
func TestJob(t *testing.T) {
	x := start(t)
	j, err := x.c.FollowJob(x.at, client.JobRef{Kind: client.BackupJob, Target: "all to a place"})
	x.must(err)
	j.Report(client.JobProgress{Phase: "messages", Done: 5, Total: 10, Unit: "messages", Detail: "a queue"})
	op := x.operation("backup", func(o *client.Operation) bool { return o.Done == 5 })
	if op.ID != j.Operation() || op.Target != "all to a place" || op.State != client.OperationRunning || op.Total != 10 || op.Unit != "messages" || op.Detail != "a queue" {
		t.Errorf("%+v", op)
	}
	j.End(nil)
	x.operation("backup", func(o *client.Operation) bool { return o.ID == op.ID && o.State == client.OperationDone })

	j, err = x.c.FollowJob(x.at, client.JobRef{Kind: client.RestoreJob, Target: "all from a place"})
	x.must(err)
	j.End(errors.New("no room"))
	x.operation("restore", func(o *client.Operation) bool { return o.State == client.OperationFailed && o.Error == "no room" })

	j, err = x.c.FollowJob(x.at, client.JobRef{Kind: client.BackupJob, Target: "all to a place"})
	x.must(err)
	_, err = x.c.CancelOperation(x.at, j.Operation())
	x.must(err)
	select {
	case <-j.Cancelled():
	case <-x.at.Done():
		t.Fatal("the client does not know that it was cancelled")
	}
	j.End(errors.New("cancelled"))
	x.operation("backup", func(o *client.Operation) bool { return o.ID == j.Operation() && o.State == client.OperationCancelled })

	other := x.Client()
	j, err = other.FollowJob(x.at, client.JobRef{Kind: client.BackupJob, Target: "of a client that goes"})
	x.must(err)
	other.Close()
	x.operation("backup", func(o *client.Operation) bool {
		return o.ID == j.Operation() && o.State == client.OperationFailed && strings.Contains(o.Error, "client has gone")
	})

	j, err = x.c.FollowJob(x.at, client.JobRef{Kind: client.BackupJob, Target: "all elsewhere"})
	x.must(err)
	first := j.Operation()
	node := slices.Index([]string{"node-0", "node-1", "node-2"}, first[:strings.Index(first, ".")])
	if node < 0 {
		t.Fatalf("operation %s", first)
	}
	x.Kill(node)
	j.Report(client.JobProgress{Phase: "messages", Done: 7})
	x.operation("backup", func(o *client.Operation) bool {
		return o.ID != first && o.Target == "all elsewhere" && o.State == client.OperationRunning
	})
	j.End(nil)

	if _, err := x.c.FollowJob(x.at, client.JobRef{Kind: 0, Target: "x"}); client.ClassOf(err) != client.PreconditionFailed {
		t.Errorf("a job of no kind: %v", err)
	}
	if _, err := x.c.FollowJob(x.at, client.JobRef{Kind: client.BackupJob, Target: ""}); client.ClassOf(err) != client.PreconditionFailed {
		t.Errorf("a job without a target: %v", err)
	}
}

// A backup that is cancelled, or whose place takes no more, ends at once and is incomplete.
func TestBrokenOff(t *testing.T) {
	x := start(t)
	x.large("full")
	ctx, cancel := context.WithTimeout(x.at, deadline)
	defer cancel()
	l := archive.Location{Name: filepath.Join(t.TempDir(), "b")}
	store, err := l.Create(ctx)
	x.must(err)
	why := errors.New("enough")
	stopped, stop := context.WithCancelCause(ctx)
	job := Create{Client: x.c, Queues: []string{"full"}, Store: store, Plan: archive.Manifest{VHost: "/"}, Seen: func(p Progress) {
		if p.Messages > 0 {
			stop(why)
		}
	}}
	if _, err := job.Run(stopped); err == nil {
		t.Error("a backup that was cancelled is complete")
	}
	if store, err = l.Open(ctx); err == nil {
		_, err = archive.Open(ctx, store, nil)
	}
	if !errors.Is(err, archive.ErrNoObject) {
		t.Errorf("what is left: %v", err)
	}
	if left, err := (archive.Location{Name: filepath.Dir(l.Name)}).Backups(ctx, nil); err != nil || len(left) > 0 && !left[0].Incomplete {
		t.Errorf("what is left: %+v, %v", left, err)
	}
	full := errors.New("no space left")
	job = Create{Client: x.c, Queues: []string{"full"}, Store: &fullStore{err: full}, Plan: archive.Manifest{VHost: "/"}, Seen: func(Progress) {}}
	began := time.Now()
	if _, err := job.Run(ctx); !errors.Is(err, full) {
		t.Errorf("a place that is full, after %v: %v", time.Since(began), err)
	}
}

// fullStore takes nothing.
type fullStore struct {
	nowhere

	err error
}

func (s *fullStore) Put(context.Context, string, []byte) error { return s.err }
