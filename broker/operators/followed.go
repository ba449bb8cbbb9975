package operators

import (
	"context"
	"errors"
	"time"

	"github.com/quorate/quorate/cluster/operation"
)

// Kinds of jobs that clients carry out.
const (
	KindBackup  operation.Kind = "backup"
	KindRestore operation.Kind = "restore"
)

// OperationProgress is the progress of an operation.
type OperationProgress = operation.Progress

// followedEnd is how long a client has to end a job that an operator has cancelled.
const followedEnd = 10 * time.Second

// errGone ends the operation of a job whose client is no longer there.
var errGone = errors.New("its client has gone, and the job with it or to another node: see the other operations")

// Followed is a job that a client carries out, and that this node shows as an operation. Its methods may be called
// concurrently.
type Followed struct {
	// ID names the operation.
	ID string
	// Cancelled is closed when the client should end the job.
	Cancelled <-chan struct{}
	// Report replaces the progress.
	Report func(OperationProgress)

	end chan error // takes one outcome
}

// Follow shows a job of a client as an operation until End.
func (o *Operators) Follow(ctx context.Context, kind operation.Kind, target string) (*Followed, error) {
	cancelled, end := make(chan struct{}), make(chan error, 1)
	reports := make(chan func(operation.Progress), 1)
	op, err := o.Start(ctx, kind, target, func(ctx context.Context, report func(operation.Progress)) error {
		reports <- report
		select {
		case err := <-end:
			return err
		case <-ctx.Done():
		}
		close(cancelled)
		if errors.Is(context.Cause(ctx), operation.ErrClosed) {
			return ctx.Err()
		}
		late := time.NewTimer(followedEnd)
		defer late.Stop()
		select {
		case err := <-end:
			return err
		case <-late.C:
			return ctx.Err()
		}
	})
	if err != nil {
		return nil, err
	}
	return &Followed{ID: op.ID.String(), Cancelled: cancelled, Report: <-reports, end: end}, nil
}

// End ends the operation; only the first call counts. A nil error says that the job is done.
func (f *Followed) End(err error) {
	select {
	case f.end <- err:
	default:
	}
}

// Gone ends the operation of a client that is no longer there, unless it had ended it.
func (f *Followed) Gone() { f.End(errGone) }
