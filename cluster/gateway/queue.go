package gateway

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// Limits of one gateway's end of one queue.
const (
	maxBatchMessages    = 512      // messages of one Enqueue
	maxBatchBytes       = 1 << 20  // bytes of bodies of one Enqueue
	MaxWaitingBytes     = 64 << 20 // bytes of bodies that wait for their answer
	maxEnqueuesInFlight = 4        // Enqueues sent and not answered; meanwhile messages gather for the next ones
	maxOutcomesInFlight = 4        // commands of one consumer's decisions sent and not answered
	maxInboxBytes       = 4 << 20  // bytes of deliveries that arrived and are not processed
	minRetryWait        = 10 * time.Millisecond
	maxRetryWait        = 250 * time.Millisecond
	tickEvery           = 250 * time.Millisecond // how often deadlines are checked
	// GetAckTimeout is the ack timeout of a message from Get (the default of CT-1).
	GetAckTimeout = 30 * time.Minute
)

// UID returns the queue's UID.
func (q *Queue) UID() id.QueueUID { return q.uid }

// Transfer sends dead letters once; after an unknown outcome the caller may safely repeat it
// (DL-25). After disk.ErrNoSpace nothing was sent. When ctx ends, unsent dead letters are
// withdrawn: traffic.ErrUnavailable means that they were not and will not be sent.
func (q *Queue) Transfer(ctx context.Context, t *quorumq.Transfer, bodies [][]byte) (quorumq.Reply, error) {
	if err := q.g.cfg.Rooms.Admit(q.uid); err != nil {
		return quorumq.Reply{}, err
	}
	r, _, err := q.do(ctx, t, op{bodies: bodies, repeat: once, recall: true})
	return r, err
}

// Purge removes ready and delayed messages and the backlog, and returns how many of them nobody will ever receive
//
func (q *Queue) Purge(ctx context.Context) (uint64, error) {
	r, _, err := q.do(ctx, &quorumq.Purge{}, op{repeat: once})
	return r.Count, err
}

// Move moves ready messages to the command's destination (G-13), and returns how many. If the
// answer of a first attempt was lost, messages moved by that attempt do not count.
func (q *Queue) Move(ctx context.Context, m *quorumq.Move) (uint64, error) {
	r, _, err := q.do(ctx, m, op{})
	if err == nil && r.Code == quorumq.CodeTooMany {
		err = fmt.Errorf("queue %s: %w: wait until some of them have arrived", q.uid, traffic.ErrTooManyMoves)
	}
	return r.Count, err
}

// RetryDelayed makes up to limit delayed messages ready, in the order of their times; 0 means all
// that are delayed when it begins. It returns how many; with an error, how many so far (DR-6).
func (q *Queue) RetryDelayed(ctx context.Context, limit uint64) (uint64, error) {
	done := uint64(0)
	for {
		ask := uint64(0)
		if limit > 0 {
			ask = limit - done
		}
		r, _, err := q.do(ctx, &quorumq.RetryDelayed{Limit: ask}, op{repeat: once})
		if err != nil {
			return done, err
		}
		done += r.Count
		if limit == 0 {
			limit = done + r.Left
		}
		if r.Count == 0 || done >= limit {
			return done, nil
		}
	}
}

// Seal has the queue take nothing more, and its leader delete it, if it is empty and the command's conditions hold. It
// reports whether they do. It needs catalog.VersionSealed.
func (q *Queue) Seal(ctx context.Context, c *quorumq.Seal) (bool, error) {
	r, _, err := q.do(ctx, c, op{})
	return r.Count > 0, err
}

// Renew counts as a use of the queue, and so defers its expiry (QX-2). It fails with traffic.ErrDrainDeleting if the
// deletion of the queue is decided.
func (q *Queue) Renew(ctx context.Context) error {
	r, _, err := q.do(ctx, &quorumq.Renew{}, op{})
	if err == nil && r.Code == quorumq.CodeDrainDeleting {
		err = fmt.Errorf("queue %s: %w", q.uid, traffic.ErrDrainDeleting)
	}
	return err
}

// do sends a command in the queue's order, with the options in o, and waits for its answer. repeated means that an
// earlier attempt may have been carried out already.
func (q *Queue) do(ctx context.Context, cmd quorumq.Command, o op) (r quorumq.Reply, repeated bool, err error) {
	answers := make(chan opResult, 1)
	o.header = quorumq.AppendCommand(nil, cmd)
	o.deadline = time.Now().Add(q.g.cfg.CommandTimeout)
	o.done = func(a opResult) { answers <- a }
	q.post(&o)
	select {
	case a := <-answers:
		return a.reply, a.repeated, a.err
	case <-ctx.Done():
		if o.recall {
			q.event(func(in *inbox) { in.recalled = append(in.recalled, &o) })
			a := <-answers
			return a.reply, a.repeated, a.err
		}
		return quorumq.Reply{}, false, fmt.Errorf("queue %s: %w: %w", q.uid, traffic.ErrUnknownOutcome, ctx.Err())
	}
}
