package client

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

const (
	// reportEvery is the least time between two reports of a job's progress.
	reportEvery = 200 * time.Millisecond
	// endWithin is how long the end of a job waits until a node has it.
	endWithin = 5 * time.Second
)

// JobKind is what a Job does.
type JobKind uint8

// The kinds.
const (
	BackupJob JobKind = iota + 1
	RestoreJob
)

// proto leaves an unknown kind unspecified, which the broker refuses.
func (k JobKind) proto() brokerv1.FollowedJobKind {
	switch k {
	case BackupJob:
		return brokerv1.FollowedJobKind_FOLLOWED_JOB_KIND_BACKUP
	case RestoreJob:
		return brokerv1.FollowedJobKind_FOLLOWED_JOB_KIND_RESTORE
	}
	return brokerv1.FollowedJobKind_FOLLOWED_JOB_KIND_UNSPECIFIED
}

// JobProgress is the progress of a job: Done of Total in a unit. Total is 0 while it is not known.
type JobProgress struct {
	Phase       string
	Done, Total int64
	Unit        string
	Detail      string // what it works on
}

// Job is a backup or restore that this program carries out, and that a node shows as an operation. If the node is lost,
// another one shows it, as another operation. Its methods may be called concurrently.
type Job struct {
	c         *Client
	first     *brokerv1.FollowJobRequest
	stop      context.CancelFunc
	cancelled chan struct{} // closed when an operator has cancelled it
	changed   chan struct{} // holds one value if progress or end has changed
	ended     chan struct{} // closed when run has ended

	mu        sync.Mutex // guards what follows
	operation string
	progress  *JobProgress // nil: it was sent
	end       *string      // nil: it is still running
}

// JobRef names a job.
type JobRef struct {
	Kind   JobKind
	Target string // text of what it works on, such as the place of a backup
}

// FollowJob shows a job as an operation until Job.End. A cluster of an older build shows none, and the job's Operation
// is empty. The caller needs the tag administrator.
func (c *Client) FollowJob(ctx context.Context, r JobRef) (*Job, error) {
	life, stop := context.WithCancel(c.ctx)
	j := &Job{
		c: c, stop: stop, cancelled: make(chan struct{}), changed: make(chan struct{}, 1), ended: make(chan struct{}),
		first: &brokerv1.FollowJobRequest{Kind: &brokerv1.FollowJobRequest_Job{Job: &brokerv1.FollowedJob{Kind: r.Kind.proto(), Target: r.Target}}},
	}
	begun := make(chan error, 1)
	go j.run(life, func(err error) {
		select {
		case begun <- err:
		default: // only the first outcome counts
		}
	})
	select {
	case err := <-begun:
		if status.Code(err) == codes.Unimplemented {
			err = nil
		}
		if err != nil {
			stop()
			return nil, fromGRPC(err)
		}
		return j, nil
	case <-ctx.Done():
		stop()
		return nil, gaveUp(ctx, ctx.Err())
	}
}

// Operation returns the operation's id; "": the nodes are of an older build.
func (j *Job) Operation() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.operation
}

// Cancelled is closed when an operator has cancelled the operation: the caller ends the job.
func (j *Job) Cancelled() <-chan struct{} { return j.cancelled }

// Report replaces the progress that the operation shows. It never blocks.
func (j *Job) Report(p JobProgress) {
	j.mu.Lock()
	j.progress = &p
	j.mu.Unlock()
	j.wake()
}

// End ends the operation, with the error for which the job failed or nil. It waits a few seconds at most.
func (j *Job) End(err error) {
	text := ""
	if err != nil {
		text = strings.ToValidUTF8(err.Error(), "?")
	}
	j.mu.Lock()
	j.end = &text
	j.mu.Unlock()
	j.wake()
	late := time.NewTimer(endWithin)
	defer late.Stop()
	select {
	case <-j.ended:
	case <-late.C:
	}
	j.stop()
}

func (j *Job) wake() {
	select {
	case j.changed <- struct{}{}:
	default: // run has not looked yet
	}
}

// run shows the job on one node after another until it has ended. begun is called with the first outcome.
func (j *Job) run(ctx context.Context, begun func(error)) {
	defer close(j.ended)
	for retry := (backoff{}); ; {
		err := j.c.try(ctx, func(ctx context.Context, n *node) error { return j.show(ctx, n, func() { begun(nil) }) })
		if err == nil {
			begun(errors.New("client: the job has ended"))
			return
		}
		if passing(err) {
			if retry.wait(ctx, 0) {
				continue
			}
		}
		begun(err)
		return
	}
}

// show shows the job on one node, until its end or the node's.
func (j *Job) show(ctx context.Context, n *node, begun func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := n.backups.FollowJob(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(j.first); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	received := make(chan error, 1)
	go func() {
		received <- receive(stream, func(r *brokerv1.FollowJobResponse) error {
			j.answer(r)
			begun()
			return nil
		})
	}()
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-received:
			if err == nil {
				return nil
			}
			return err
		case <-j.changed:
		}
		if j.send(stream) {
			_ = stream.CloseSend() // it always returns nil
			return <-received
		}
		select {
		case err := <-received:
			return err
		case <-tick.C:
		}
	}
}

// answer processes a node's response.
func (j *Job) answer(r *brokerv1.FollowJobResponse) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if id := r.GetOperation(); id != "" {
		j.operation = id
	}
	if !r.GetCancelled() {
		return
	}
	select {
	case <-j.cancelled:
	default:
		close(j.cancelled)
	}
}

// send sends what has changed, and reports whether that is the end. If the stream has ended, reading it returns the
// reason.
func (j *Job) send(stream brokerv1.Backups_FollowJobClient) (ended bool) {
	j.mu.Lock()
	p, end := j.progress, j.end
	j.progress = nil
	j.mu.Unlock()
	if p != nil {
		_ = stream.Send(&brokerv1.FollowJobRequest{Kind: &brokerv1.FollowJobRequest_Progress{Progress: &brokerv1.FollowedProgress{
			Phase: p.Phase, Done: p.Done, Total: p.Total, Unit: p.Unit, Detail: p.Detail,
		}}})
	}
	if end != nil {
		_ = stream.Send(&brokerv1.FollowJobRequest{Kind: &brokerv1.FollowJobRequest_End{End: &brokerv1.FollowedEnd{Error: *end}}})
	}
	return end != nil
}
