package replica

import (
	"sync"

	"github.com/quorate/quorate/id"
)

// awaited are the queues of which somebody waits for one event: that this node leads a new one, or that this node's member
// learns of a leader.
type awaited struct {
	mu     sync.Mutex // guards what follows
	queues map[id.QueueUID]*awaitedQueue
}

// awaitedQueue is one queue that somebody waits for.
type awaitedQueue struct {
	waiters  int
	happened chan struct{} // closed by the event
}

func newAwaited() awaited { return awaited{queues: map[id.QueueUID]*awaitedQueue{}} }

// wait returns a channel that is closed by the queue's next event.
// end must be called when nobody reads it any longer.
func (a *awaited) wait(uid id.QueueUID) (happened <-chan struct{}, end func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := a.queues[uid]
	if q == nil {
		q = &awaitedQueue{happened: make(chan struct{})}
		a.queues[uid] = q
	}
	q.waiters++
	return q.happened, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if q.waiters--; q.waiters == 0 && a.queues[uid] == q {
			delete(a.queues, uid)
		}
	}
}

// end ends the waits for a queue. It does not block.
func (a *awaited) end(uid id.QueueUID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if q := a.queues[uid]; q != nil {
		close(q.happened)
		delete(a.queues, uid)
	}
}
