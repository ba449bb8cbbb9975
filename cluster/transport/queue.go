package transport

import (
	"fmt"
	"sync"

	"github.com/quorate/quorate/cluster/frame"
	"github.com/quorate/quorate/internal/wait"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// maxBatchBytes bounds what the writer of a stream puts into one message; a larger frame
// travels alone. Small enough that a stream never holds back its neighbours for long.
const maxBatchBytes = 1 << 20

// sendQueue holds the frames that wait for one stream. Any goroutine pushes, the
// stream's writer takes; mu guards all fields below it.
type sendQueue struct {
	maxFrame, maxQueue int           // bytes
	wake               chan struct{} // of capacity 1: something is queued, or closed

	mu      sync.Mutex
	room    *sync.Cond // bytes left the queue, or it closed
	frames  []frame.Out
	waiting int // bytes pushed and not yet written
	closed  bool
}

// newSendQueue returns an empty queue; drain, in a goroutine of its own, writes what is added.
func newSendQueue(c *Config) *sendQueue {
	q := &sendQueue{maxFrame: c.MaxFrameBytes, maxQueue: c.MaxStreamQueueBytes, wake: make(chan struct{}, 1)}
	q.room = sync.NewCond(&q.mu)
	return q
}

// push queues a frame without blocking. One frame always fits into an empty queue.
func (q *sendQueue) push(f *nodev1.Frame) error { return q.add(frame.Out{Frame: f}, false) }

// add queues a frame; wait lets it block while the queue is full.
func (q *sendQueue) add(f frame.Out, wait bool) error {
	size := f.Measure()
	if size > q.maxFrame {
		return fmt.Errorf("%w: %d bytes, the limit is %d: raise MaxFrameBytes on all nodes or send less at once",
			ErrFrameTooLarge, size, q.maxFrame)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed && q.waiting > 0 && q.waiting+size > q.maxQueue {
		if !wait {
			return fmt.Errorf("%w: %d bytes wait and %d more do not fit into %d", ErrStreamFull, q.waiting, size, q.maxQueue)
		}
		q.room.Wait()
	}
	if q.closed {
		return ErrNotConnected
	}
	q.frames = append(q.frames, f)
	q.waiting += size
	q.signal()
	return nil
}

// take returns all that gathered; the given slice is emptied and used for what comes.
func (q *sendQueue) take(frames []frame.Out) ([]frame.Out, bool) {
	clear(frames)
	q.mu.Lock()
	defer q.mu.Unlock()
	frames, q.frames = q.frames, frames[:0]
	return frames, !q.closed
}

// wrote reports that bytes left the queue for good.
func (q *sendQueue) wrote(bytes int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.waiting -= bytes
		q.room.Broadcast()
	}
}

// bytes returns how much waits or is being written.
func (q *sendQueue) bytes() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting
}

// close drops what waits. With the lock held, so that whoever closes it again finds that all was
// reported.
func (q *sendQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	notSent(q.frames)
	q.frames, q.waiting = nil, 0
	q.room.Broadcast()
	q.signal()
}

// notSent reports that frames were dropped.
func notSent(frames []frame.Out) {
	for i := range frames {
		if f := frames[i].Unsent; f != nil {
			f()
		}
	}
}

// signal never blocks: one wake-up that is not taken yet stands for all.
func (q *sendQueue) signal() {
	wait.Wake(q.wake)
}

// messageSender and messageReceiver are the ends of a stream, whichever side opened it.
type (
	messageSender   interface{ SendMsg(any) error }
	messageReceiver interface{ RecvMsg(any) error }
)

// drain writes what gathers, in order and as few messages as the limits allow, until
// the queue is closed or done is, or a write fails.
func (q *sendQueue) drain(done <-chan struct{}, count *traffic, stream messageSender) error {
	var frames []frame.Out
	var message frame.OutMessage
	for {
		select {
		case <-q.wake:
		case <-done:
			return nil
		}
		var open bool
		if frames, open = q.take(frames); !open {
			return nil
		}
		for from := 0; from < len(frames); {
			to, bytes := from+1, frames[from].Size()
			for to < len(frames) && bytes+frames[to].Size() <= maxBatchBytes {
				bytes += frames[to].Size()
				to++
			}
			message.Frames = frames[from:to]
			if err := stream.SendMsg(&message); err != nil {
				notSent(frames[to:])
				return err
			}
			count.sent(to-from, bytes)
			q.wrote(bytes)
			from = to
		}
	}
}
