package online

import (
	"context"
	"sync"

	"github.com/quorate/quorate/backup/archive"
	"github.com/quorate/quorate/client"
)

// Progress is the progress of a backup or a restore.
type Progress struct {
	Queues, AllQueues int // done, and in all
	// Messages are those that are done. AllMessages is how many there were at the beginning; a backup may get more or
	// fewer.
	Messages, AllMessages uint64
	Bytes                 uint64 // of messages, in a backup
	Queue                 string // the last one that was worked on, in words
	Waits                 error  // why it is tried again; nil: no wait
}

// tally adds up the progress of copies. Its methods may be called concurrently.
type tally struct {
	seen func(Progress)

	mu  sync.Mutex // guards now
	now Progress
}

// begin sets how much there is to do.
func (t *tally) begin(queues []client.QueueInfo, seen func(Progress)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen = seen
	t.now = Progress{AllQueues: len(queues)}
	for i := range queues {
		t.now.AllMessages += queues[i].Figures().Messages
	}
}

// queues counts copies that are complete.
func (t *tally) queues(n int) {
	t.mu.Lock()
	t.now.Queues += n
	now := t.now
	t.mu.Unlock()
	t.seen(now)
}

// block adds a block to a copy.
func (t *tally) block(ctx context.Context, x *archive.Copy, q *client.QueueInfo, b []byte) error {
	messages, bytes := x.Done()
	if err := x.Block(ctx, b); err != nil {
		return err
	}
	newMessages, newBytes := x.Done()
	t.mu.Lock()
	t.now.Messages += newMessages - messages
	t.now.Bytes += newBytes - bytes
	t.now.Queue, t.now.Waits = described(q), nil
	now := t.now
	t.mu.Unlock()
	t.seen(now)
	return nil
}

// waits records that a queue is tried again.
func (t *tally) waits(q *client.QueueInfo, why error) {
	t.mu.Lock()
	t.now.Queue, t.now.Waits = described(q), why
	now := t.now
	t.mu.Unlock()
	t.seen(now)
}

// forget takes off what a copy had, because it starts over.
func (t *tally) forget(x *archive.Copy) {
	messages, bytes := x.Done()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now.Messages -= messages
	t.now.Bytes -= bytes
}
