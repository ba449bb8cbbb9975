package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/quorumq"
)

// publishLocked keeps the message until the queue's goroutine numbers it; q.mu is held.
func (q *Queue) publishLocked(m quorumq.NewMessage, body []byte, done func(error), deadline time.Time) {
	q.waiting++
	q.bytes += int64(len(body))
	q.publisher.Push(m, body, publishToken{done: done, deadline: deadline, size: len(body)})
}

// deadline returns when a message that is handed over now is given up (PUB-5); zero: never.
func (q *Queue) deadline() time.Time {
	if d := q.g.cfg.ConfirmTimeout; d > 0 {
		return time.Now().Add(d)
	}
	return time.Time{}
}

// fullLocked reports whether another body must wait. A single one always has room.
func (q *Queue) fullLocked(size int) bool {
	return q.waiting >= q.g.cfg.PublishWindow || q.waiting > 0 && q.bytes+int64(size) > q.g.cfg.Disks.Window()
}

// awaitRoomLocked waits until there is room for bodies of a size. It releases mu while it waits.
func (q *Queue) awaitRoomLocked(ctx context.Context, size int) error {
	if q.ended != nil || !q.fullLocked(size) {
		return q.ended
	}
	q.g.held.Add(1)
	q.g.holding.Add(1)
	defer q.g.holding.Add(-1)
	for q.ended == nil && q.fullLocked(size) {
		room := q.room
		q.waiters++
		q.mu.Unlock()
		var err error
		select {
		case <-room:
		case <-ctx.Done():
			err = fmt.Errorf("queue %s: too many messages wait for the queue's leader: %w", q.uid, ctx.Err())
		}
		q.mu.Lock()
		if err != nil {
			return err
		}
	}
	return q.ended
}

// Enqueue publishes a message to the queue. It waits while the window is full, until ctx ends, and
// returns disk.ErrNoSpace if too few of the queue's nodes have free disk space. If it returns nil,
// done is called once, from any goroutine, and must not block. Its error is nil, or wraps
// traffic.ErrRefused, traffic.ErrUnavailable (the message is not stored, and will not be),
// traffic.ErrUnknownOutcome, traffic.ErrNoSuchQueue, traffic.ErrClosed, or disk.ErrNoSpace if the
// message has a producer. The caller must not change the body until then.
func (q *Queue) Enqueue(ctx context.Context, m quorumq.NewMessage, body []byte, done func(error)) error {
	lack := q.g.cfg.Rooms.Admit(q.uid)
	if lack != nil && m.Producer == nil {
		return lack
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.awaitRoomLocked(ctx, len(body)); err != nil {
		return err
	}
	if lack == nil {
		lack = q.g.cfg.Rooms.Admit(q.uid) // it may have waited
	}
	switch {
	case lack == nil:
	case m.Producer == nil:
		return lack
	default:
		m, body, done = m.Void(), nil, unlessStored(lack, done)
	}
	q.publishLocked(m, body, done, q.deadline())
	q.publishedLocked()
	return nil
}

// unlessStored returns the callback of a void in the place of a producer's message for which there is no
// room. An earlier try may have brought the message to the queue, or may do so yet (PUB-5): only the queue can
// refuse it for good. The void uses the number up, so that no later try passes for a repeat (PUB-6).
func unlessStored(lack error, done func(error)) func(error) {
	return func(err error) {
		if errors.Is(err, traffic.ErrRefused) {
			err = lack
		}
		done(err)
	}
}
