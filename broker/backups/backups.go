// Package backups copies the messages of queues out of the cluster, and back into queues. Package backup defines the
// bytes. Backups may be used concurrently; errors are those of package failure.
package backups

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

const (
	// exportAhead is how many blocks of an export wait for its caller.
	exportAhead = 4
	// exportStall is how long a caller may take no block before the export ends: during an export, a log cannot be
	// compacted.
	exportStall = time.Minute
)

// Config has the parts of Backups.
type Config struct {
	Cluster *cluster.Cluster
	Serving *serving.Node
	// MaxBodyBytes limits the body of a message, as for a publish (MSG-2).
	MaxBodyBytes int
}

// restorer is what a restore needs of a *gateway.Queue, which documents the contract.
type restorer interface {
	Restore(ctx context.Context, m quorumq.NewMessage, stored []byte, done func(error)) error
}

// Backups copies queues. All methods may be called concurrently.
type Backups struct {
	cfg Config
	// open returns the gateway's end of a queue.
	open func(id.QueueUID) (restorer, error)
}

// New returns the Backups of a node.
func New(c Config) *Backups {
	return &Backups{cfg: c, open: func(uid id.QueueUID) (restorer, error) {
		q, err := c.Cluster.Gateway().Queue(uid)
		return q, err
	}}
}

var _ restorer = (*gateway.Queue)(nil)

// Export passes the blocks of a copy of a queue to emit, as the queue is at one moment of the call (BK-1). With
// headOnly, the first block alone. emit may keep a block; done says that nobody needs its bytes any more, so that a later
// one may have its memory. It may be called by any goroutine, and need not be.
func (b *Backups) Export(ctx context.Context, vhost, queue string, headOnly bool, emit func(block []byte, done func()) error) error {
	v, err := b.cfg.Serving.ViewOf(vhost)
	if err != nil {
		return err
	}
	rec, err := serving.LookUp(v, vhost, queue)
	if err != nil {
		return err
	}
	about := failure.Error{VHost: vhost, Kind: "queue", Name: queue}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	blocks := make(chan []byte, exportAhead)
	spare := make(chan []byte, exportAhead)
	ended := make(chan error, 1)
	go func() {
		defer close(blocks)
		ended <- b.cfg.Cluster.Leaders().Export(ctx, rec.UID, headOnly, func(block []byte) ([]byte, error) {
			err := pass(ctx, cancel, block, blocks)
			return orNone(spare), err
		})
	}()
	for block := range blocks {
		done := func() {
			select {
			case spare <- block:
			default: // there is enough
			}
		}
		if err := emit(block, done); err != nil {
			cancel(err)
			for range blocks { // until the export has ended, too
			}
			return err
		}
	}
	err = <-ended
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errStalled) {
		err = &failure.Error{
			Class: failure.ResourceExhausted, VHost: vhost, Kind: "queue", Name: queue,
			Reason: fmt.Sprintf("the export ended, because the caller took nothing for %v; export again", exportStall),
		}
	}
	return failure.Translate(err, about)
}

// orNone returns what a channel has, or nil.
func orNone(from <-chan []byte) []byte {
	select {
	case b := <-from:
		return b
	default:
		return nil
	}
}

var errStalled = errors.New("the caller takes nothing")

// pass waits until the caller takes a block, but not for ever.
func pass(ctx context.Context, cancel context.CancelCauseFunc, block []byte, to chan<- []byte) error {
	select {
	case to <- block:
		return nil
	default:
	}
	t := time.NewTimer(exportStall)
	defer t.Stop()
	select {
	case to <- block:
		return nil
	case <-t.C:
		cancel(errStalled)
		return errStalled
	case <-ctx.Done():
		return ctx.Err()
	}
}
