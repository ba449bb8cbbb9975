package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// ErrNoProgress ends a copy or a restore of a queue that made no progress for the patience of the request. The error
// that wraps it also has the last reason.
var ErrNoProgress = errors.New("client: no progress")

// Patience bounds a call that tries again and again while the queue has no leader, or no node can do the work.
type Patience struct {
	// For is how long tries may make no progress before the call ends with ErrNoProgress; 0: until ctx ends.
	For time.Duration
	// Waiting, unless nil, is called before each further try with the reason why the last one failed.
	Waiting func(error)
}

// tries are those of one call. One goroutine uses them.
type tries struct {
	Patience

	retry   backoff
	most    uint64 // as far as any try has come
	since   time.Time
	untried bool // a node has not had its try yet; it gets one, even if the patience is over
}

func (p Patience) begin() *tries { return &tries{Patience: p, since: time.Now()} }

// reached records how much a try has done; only more than any earlier try counts as progress.
func (t *tries) reached(n uint64) {
	if n > t.most {
		t.most, t.since = n, time.Now()
	}
}

// bound ends ctx when the patience is over; each report of progress through more starts the patience again. Without a
// patience it ends with the call.
func (t *tries) bound(ctx context.Context) (bounded context.Context, more, end func()) {
	bounded, cancel := context.WithCancel(ctx)
	if t.For <= 0 {
		return bounded, func() {}, cancel
	}
	over := time.AfterFunc(max(t.For-time.Since(t.since), time.Millisecond), cancel)
	return bounded, func() { over.Reset(t.For) }, func() { over.Stop(); cancel() }
}

// again waits before another try. It returns nil to try, and otherwise why not.
func (t *tries) again(ctx context.Context, c *Client, err error) error {
	if ctx.Err() == nil && (passing(err) || askedToWait(err) > 0) {
		if t.For > 0 && !t.untried && time.Since(t.since) >= t.For {
			return fmt.Errorf("%w for %v: %w", ErrNoProgress, t.For, fromGRPC(err))
		}
		if t.Waiting != nil {
			t.Waiting(fromGRPC(err))
		}
	}
	return c.again(ctx, &t.retry, err)
}

// ExportQueueRequest names a queue to copy.
type ExportQueueRequest struct {
	VHost, Queue string
	HeadOnly     bool // only the first block
	// Nodes are client addresses. The first of them that the client knows and that answers sends the copy; none: any. If
	// it fails, the next one is asked, and each once before the patience ends the call. A node that has no copy of the
	// queue, or leads it, passes on what another one reads, if it can.
	Nodes    []string
	Patience Patience
}

// ExportQueue passes a copy of a queue to block, in the blocks of docs/formats/backup.md: every message that was
// confirmed before the call and has not left the queue. block must not keep one. begin is called before the first
// block, and again if the copy starts over on another node; an error of begin or block ends the call. Only ctx and
// the patience bound it. The caller needs the tag administrator.
func (c *Client) ExportQueue(ctx context.Context, r ExportQueueRequest, begin func() error, block func([]byte) error) error {
	var own error // of the caller's functions
	order := newAddressOrder(r.Nodes)
	for all := r.Patience.begin(); ; {
		blocks, asked := uint64(0), ""
		err := c.tryFirst(ctx, order.addresses, func(ctx context.Context, n *node) error {
			asked = n.address
			if own = begin(); own != nil {
				return nil //nolint:nilerr // it is no fault of the node's; own is returned below
			}
			request := &brokerv1.ExportQueueRequest{Vhost: r.VHost, Queue: r.Queue, HeadOnly: r.HeadOnly}
			stream, err := n.backups.ExportQueue(ctx, request, grpc.ForceCodecV2(newBlockCodec()))
			if err != nil {
				return err
			}
			for x := (exportedBlock{}); ; {
				err := stream.RecvMsg(&x)
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err != nil {
					return err
				}
				if own = block(x.block); own != nil {
					return nil //nolint:nilerr // likewise
				}
				blocks++
				all.reached(blocks)
			}
		})
		switch {
		case own != nil:
			return own
		case err == nil:
			return nil
		}
		all.untried = order.failed(asked)
		if err := all.again(ctx, c, err); err != nil {
			return err
		}
	}
}

// RestoreQueueRequest is where a copy of a queue is restored.
type RestoreQueueRequest struct {
	VHost, Queue string
	// Run is random, and the same for all calls that restore this copy there: each message is stored once.
	Run      [16]byte
	DryRun   bool // only check the queue and the copy
	Patience Patience
	// Blocks starts from the first block; next returns the blocks, and io.EOF behind the last one.
	Blocks func() (next func() ([]byte, error), err error)
	// Seen, unless nil, is called about once a second.
	Seen func(Restored)
}

// Restored is the progress of a restore.
type Restored struct {
	Stored, Refused uint64
}

// RestoreQueue stores the messages of a copy in a queue, behind those that it has. If a node is lost, it begins again
// on another one, which stores what is missing. Only ctx and the patience bound the call. The caller needs the tag administrator.
func (c *Client) RestoreQueue(ctx context.Context, r RestoreQueueRequest) (Restored, error) {
	var own error // of Blocks
	for all := r.Patience.begin(); ; {
		var done Restored
		err := c.try(ctx, func(ctx context.Context, n *node) error {
			ctx, more, cancel := all.bound(ctx)
			defer cancel()
			var next func() ([]byte, error)
			if next, own = r.Blocks(); own != nil {
				return nil
			}
			stream, err := n.backups.RestoreQueue(ctx)
			if err != nil {
				return err
			}
			sent := make(chan error, 1)
			go func() { sent <- sendBlocks(stream, &r, next, cancel) }()
			ended := false
			err = receive(stream, func(x *brokerv1.RestoreQueueResponse) error {
				done, ended = Restored{Stored: x.GetStored(), Refused: x.GetRefused()}, x.GetDone()
				if n := done.Stored + done.Refused; n > all.most {
					all.reached(n)
					more()
				}
				if r.Seen != nil {
					r.Seen(done)
				}
				return nil
			})
			cancel()
			own = <-sent
			if own == nil && err == nil && !ended {
				err = io.ErrUnexpectedEOF
			}
			return err
		})
		switch {
		case own != nil:
			return done, own
		case err == nil:
			return done, nil
		}
		if err := all.again(ctx, c, err); err != nil {
			return done, err
		}
	}
}

// sendBlocks sends the target and the blocks. It returns errors of next; if the stream has ended, reading it returns
// the reason.
func sendBlocks(stream brokerv1.Backups_RestoreQueueClient, r *RestoreQueueRequest, next func() ([]byte, error), cancel func()) error {
	to := &brokerv1.RestoreTarget{Vhost: r.VHost, Queue: r.Queue, Run: r.Run[:], DryRun: r.DryRun}
	if stream.Send(&brokerv1.RestoreQueueRequest{Kind: &brokerv1.RestoreQueueRequest_Target{Target: to}}) != nil {
		return nil //nolint:nilerr // reading the stream returns it
	}
	for {
		block, err := next()
		if errors.Is(err, io.EOF) {
			_ = stream.CloseSend() // it always returns nil
			return nil
		}
		if err != nil {
			cancel()
			return err
		}
		if stream.Send(&brokerv1.RestoreQueueRequest{Kind: &brokerv1.RestoreQueueRequest_Block{Block: block}}) != nil {
			return nil //nolint:nilerr // likewise
		}
	}
}
