package replica

import (
	"log/slog"
	"sync"
	"time"
)

// An unused queue asks again every second while it cannot be deleted. A warning is logged at once, after
// firstWarning, after twice that, and so on up to lastWarning.
const (
	firstWarning = 10 * time.Second
	lastWarning  = 10 * time.Minute
)

// notDeleted are the warnings that a queue is not deleted yet. Its methods may be called concurrently.
type notDeleted struct {
	mu   sync.Mutex // guards what follows
	wait time.Duration
	next time.Time // when the next one is due; zero: at once
}

// warn logs why the queue is not deleted, if a warning is due.
func (n *notDeleted) warn(log *slog.Logger, why error) {
	if n.due(time.Now()) {
		log.Warn("an unused queue is not deleted yet", "error", why)
	}
}

// due reports whether a warning is due, and counts it then.
func (n *notDeleted) due(now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now.Before(n.next) {
		return false
	}
	n.wait = min(max(2*n.wait, firstWarning), lastWarning)
	n.next = now.Add(n.wait)
	return true
}
