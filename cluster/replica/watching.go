package replica

import (
	"sync"

	"github.com/quorate/quorate/internal/wait"
)

// watcher has the members whose leader, term or state may have changed. One goroutine of the node
// watches all of them; otherwise each group would need one that waits.
type watcher struct {
	wake chan struct{} // of capacity 1

	mu   sync.Mutex
	todo []*Member
}

// add does not block. A member that is in the list already is reported once.
func (w *watcher) add(q *Member) {
	if !q.changed.CompareAndSwap(false, true) {
		return
	}
	w.mu.Lock()
	w.todo = append(w.todo, q)
	w.mu.Unlock()
	wait.Wake(w.wake)
}

// run reports changes until stop is closed.
func (w *watcher) run(stop <-chan struct{}) {
	for {
		select {
		case <-w.wake:
		case <-stop:
			return
		}
		w.mu.Lock()
		todo := w.todo
		w.todo = nil
		w.mu.Unlock()
		for _, q := range todo {
			q.changed.Store(false)
			q.reportChange()
		}
	}
}

// reportChange notifies the gateway of a new leader, and liveness of every change. Only the
// watcher's goroutine calls it.
func (q *Member) reportChange() {
	if q.ctx.Err() != nil {
		return
	}
	if q.group.Failed() != nil {
		wait.Wake(q.h.mends)
	}
	q.h.cfg.Liveness.Changed(q.uid.Group())
	leader, _ := q.group.Leader()
	if leader == q.known {
		return
	}
	q.known = leader
	if leader != "" {
		q.h.loads.leads(q.uid, leader)
		q.h.learned.end(q.uid)
	}
	if leader != "" && leader != q.h.cfg.Node {
		q.ledLast.Store(false)
	}
	q.h.above.Gateway.LeaderChanged(q.uid, leader)
}
