package cluster

import (
	"fmt"
	"sync"
	"time"

	"github.com/quorate/quorate/id"
)

// linkGrace is how long a node that lacks nothing else waits for the links with others: a route that is broken for
// longer must not keep it out of service.
const linkGrace = 10 * time.Second

// linking holds the readiness of a start back until the links of the others reach this node. Before that, queues that
// are led there lack the member here, and whoever takes down one node after another, as a rollout does, would take the
// next one too early.
type linking struct {
	missing func() []id.NodeID // nodes that are there and have no link to this one, or to which this one has none

	mu    sync.Mutex
	since time.Time // when nothing else was missing for the first time; zero: something was
	done  bool      // the wait is over
}

// wait reports the nodes for which a node waits that lacks nothing else. Once there are none, or after linkGrace, it
// waits for none ever after.
func (l *linking) wait(now time.Time) error {
	if l.over(now) {
		return nil
	}
	missing := l.missing()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done = l.done || len(missing) == 0; l.done { // another caller may have found none meanwhile
		return nil
	}
	return fmt.Errorf("cluster: the links with nodes %q are not up yet, for which a node that starts waits for %v at most: "+
		"if that lasts, see that they reach this node's listen.peer", missing, linkGrace)
}

// over reports whether the wait is over.
func (l *linking) over(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since.IsZero() {
		l.since = now
	}
	l.done = l.done || now.Sub(l.since) >= linkGrace
	return l.done
}
