package transport

import (
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"

	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// maxBatchBytes bounds what the writer of a link puts into one message; a larger frame
// travels alone. Small enough that a stream never holds back its neighbours for long.
const maxBatchBytes = 1 << 20

// sendQueue holds the frames that wait for one stream. Any goroutine pushes, the
// stream's writer takes; mu guards all fields below it.
type sendQueue struct {
	maxFrame, maxQueue int           // bytes
	wake               chan struct{} // of capacity 1: something is queued, or closed

	mu      sync.Mutex
	room    *sync.Cond // bytes left the queue, or it closed
	frames  []*nodev1.Frame
	sizes   []int
	waiting int // bytes pushed and not yet written
	closed  bool
}

func newSendQueue(c *Config) *sendQueue {
	q := &sendQueue{maxFrame: c.MaxFrameBytes, maxQueue: c.MaxLinkQueueBytes, wake: make(chan struct{}, 1)}
	q.room = sync.NewCond(&q.mu)
	return q
}

// push queues a frame without blocking. One frame always fits into an empty queue.
func (q *sendQueue) push(f *nodev1.Frame) error { return q.add(f, false) }

// pushWait queues a frame and blocks while the queue is full.
func (q *sendQueue) pushWait(f *nodev1.Frame) error { return q.add(f, true) }

func (q *sendQueue) add(f *nodev1.Frame, wait bool) error {
	size := proto.Size(f)
	if size > q.maxFrame {
		return fmt.Errorf("%w: %d bytes, the limit is %d: raise MaxFrameBytes on all nodes or send less at once",
			ErrFrameTooLarge, size, q.maxFrame)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed && q.waiting > 0 && q.waiting+size > q.maxQueue {
		if !wait {
			return fmt.Errorf("%w: %d bytes wait and %d more do not fit into %d", ErrLinkFull, q.waiting, size, q.maxQueue)
		}
		q.room.Wait()
	}
	if q.closed {
		return ErrLinkDown
	}
	q.frames = append(q.frames, f)
	q.sizes = append(q.sizes, size)
	q.waiting += size
	q.signal()
	return nil
}

// take moves all that gathered into the given slices, which are emptied first.
func (q *sendQueue) take(frames []*nodev1.Frame, sizes []int) ([]*nodev1.Frame, []int, bool) {
	clear(frames)
	q.mu.Lock()
	defer q.mu.Unlock()
	frames, q.frames = q.frames, frames[:0]
	sizes, q.sizes = q.sizes, sizes[:0]
	return frames, sizes, !q.closed
}

// wrote tells that bytes left the queue for good.
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

func (q *sendQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.frames, q.sizes, q.waiting = nil, nil, 0
	q.room.Broadcast()
	q.signal()
}

func (q *sendQueue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// drain writes what gathers, in order and as few messages as the limits allow, until
// the queue is closed or done is, or a write fails.
func (q *sendQueue) drain(done <-chan struct{}, count *traffic, send func([]*nodev1.Frame) error) error {
	var frames []*nodev1.Frame
	var sizes []int
	for {
		select {
		case <-q.wake:
		case <-done:
			return nil
		}
		var open bool
		if frames, sizes, open = q.take(frames, sizes); !open {
			return nil
		}
		for from := 0; from < len(frames); {
			to, bytes := from+1, sizes[from]
			for to < len(frames) && bytes+sizes[to] <= maxBatchBytes {
				bytes += sizes[to]
				to++
			}
			if err := send(frames[from:to]); err != nil {
				return err
			}
			count.sent(to-from, bytes)
			q.wrote(bytes)
			from = to
		}
	}
}
