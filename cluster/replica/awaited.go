package replica

import (
	"sync"

	"github.com/quorate/quorate/id"
)

// awaited are the new queues whose declarations wait for this node to lead them.
type awaited struct {
	mu     sync.Mutex // guards what follows
	queues map[id.QueueUID]*awaitedQueue
}

// awaitedQueue is one queue that declarations wait for.
type awaitedQueue struct {
	waiters int
	led     chan struct{} // closed when this node leads the queue
}

// wait returns a channel that is closed once this node leads the queue with a configuration in force.
// end must be called when nobody reads it any more.
func (a *awaited) wait(uid id.QueueUID) (led <-chan struct{}, end func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := a.queues[uid]
	if q == nil {
		q = &awaitedQueue{led: make(chan struct{})}
		a.queues[uid] = q
	}
	q.waiters++
	return q.led, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if q.waiters--; q.waiters == 0 && a.queues[uid] == q {
			delete(a.queues, uid)
		}
	}
}

// led ends the waits for a queue. It does not block.
func (a *awaited) led(uid id.QueueUID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if q := a.queues[uid]; q != nil {
		close(q.led)
		delete(a.queues, uid)
	}
}
