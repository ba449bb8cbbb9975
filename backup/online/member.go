package online

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/backup/archive"
	"github.com/quorate/quorate/client"
)

// member is one of several queues whose copies are begun together. Its goroutine writes what follows turn.
type member struct {
	copy  *archive.Copy
	queue *client.QueueInfo
	ask   client.ExportQueueRequest
	tally *tally
	turn  chan struct{} // closed when its other blocks may be written

	begun chan struct{} // closed when its first block is there, or it failed
	done  chan struct{} // closed at the end
	first bool          // begun is closed
	err   error         // set before begun or done is closed
}

func newMember(x *archive.Copy, q *client.QueueInfo, ask client.ExportQueueRequest, t *tally) *member {
	return &member{copy: x, queue: q, ask: ask, tally: t, turn: make(chan struct{}), begun: make(chan struct{}), done: make(chan struct{})}
}

// run copies the queue.
func (m *member) run(ctx context.Context, c *client.Client) {
	defer close(m.done)
	defer m.copy.Abandon()
	defer m.begin()
	err := c.ExportQueue(ctx, m.ask, func() error {
		if m.first {
			return fmt.Errorf("its copy broke off: make the backup again")
		}
		return nil
	}, func(b []byte) error {
		if m.first {
			return m.tally.block(ctx, m.copy, m.queue, b)
		}
		if err := m.tally.block(ctx, m.copy, m.queue, b); err != nil {
			return err
		}
		m.begin()
		select {
		case <-m.turn:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if err == nil {
		err = m.copy.End()
	}
	if err != nil {
		m.err = fmt.Errorf("%s: %w", described(m.queue), err)
	}
}

// begin reports that the first block is there.
func (m *member) begin() {
	if !m.first {
		m.first = true
		close(m.begun)
	}
}
