package cluster

import (
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/id"
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

// Reach reports how many of the cluster's nodes this one reaches, by the connections to them. A node
// that knows of no cluster yet is not cut off from it.
func (c *Cluster) Reach() Reach {
	var r Reach
	lost := c.liveness.Lost(nil, counted(c.nodeIDs(), &r.Nodes))
	r.Reached = r.Nodes - len(lost)
	spare := r.Nodes - (r.Nodes/2 + 1) // so many may be lost
	if r.Nodes == 0 || len(lost) <= spare {
		return r
	}
	slices.SortFunc(lost, time.Time.Compare)
	since := lost[spare]
	if since.Before(c.reach.began) {
		since = c.reach.began
	}
	r.CutOff = max(1, time.Since(since))
	return r
}

// ReachChanged returns a channel that is closed when a node is lost or found the next time.
func (c *Cluster) ReachChanged() <-chan struct{} {
	c.reach.mu.Lock()
	defer c.reach.mu.Unlock()
	return c.reach.changed
}

// nodeIDs goes over the cluster's nodes.
func (c *Cluster) nodeIDs() iter.Seq[id.NodeID] {
	return func(yield func(id.NodeID) bool) {
		for n := range c.View().Nodes() {
			if !yield(n.ID) {
				return
			}
		}
	}
}

// counted goes over all and counts them.
func counted[T any](all iter.Seq[T], n *int) iter.Seq[T] {
	return func(yield func(T) bool) {
		for x := range all {
			*n++
			if !yield(x) {
				return
			}
		}
	}
}

// DiskHangs reports that a write to this node's disk does not come back: it leads nothing then.
func (c *Cluster) DiskHangs() bool { return c.disks.Hangs() }
