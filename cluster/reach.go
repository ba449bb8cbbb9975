package cluster

import (
	"sync"
	"time"
)

// reach wakes those that wait, because liveness has judged a node anew.
type reach struct {
	began time.Time

	mu      sync.Mutex
	changed chan struct{} // guarded by mu
}

func newReach() *reach { return &reach{began: time.Now(), changed: make(chan struct{})} }

// judged wakes those who wait.
func (r *reach) judged() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.changed)
	r.changed = make(chan struct{})
}

// Reach is how many of the cluster's nodes this one reaches.
type Reach struct {
	Nodes   int // of the cluster, as this node knows
	Reached int // of them, itself included
	// CutOff is for how long it has not reached a majority of them; 0: it does.
	CutOff time.Duration
}

// next returns a channel that is closed when liveness judges a node anew.
func (r *reach) next() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}
