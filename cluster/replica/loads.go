package replica

import (
	"maps"
	"sync"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
)

// loads counts what each node carries. It updates the counts queue by queue as they change, so that reading them costs
// the same however many queues there are. All methods may be called concurrently.
type loads struct {
	mu    sync.Mutex // guards what follows
	view  *catalog.View
	led   map[id.QueueUID]leadership
	nodes map[id.NodeID]Load
}

// leadership is who leads a queue.
type leadership struct {
	node    id.NodeID
	counted bool // the counts include this queue
}

// Load is what a node carries according to a view: members of queues, and queues that it leads.
type Load struct{ Replicas, Leaders int }

// Loads returns what each node carries by a view.
func (h *Host) Loads(v *catalog.View) map[id.NodeID]Load { return h.loads.at(v) }

func newLoads(v *catalog.View) *loads {
	return &loads{view: v, led: map[id.QueueUID]leadership{}, nodes: map[id.NodeID]Load{}}
}

// at returns the counts for a view. A queue counts as led by the node with which leads was called last, or else by its
// preferred leader.
func (l *loads) at(v *catalog.View) map[id.NodeID]Load {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v.Index() >= l.view.Index() {
		for was, is := range v.ChangedQueues(l.view) {
			l.applyRecord(was, is)
		}
		l.view = v
	}
	return maps.Clone(l.nodes)
}

// applyRecord changes the counts from a queue's old record to its new one; nil stands for no queue. l.mu is held.
func (l *loads) applyRecord(was, is *catalog.QueueRecord) {
	if was != nil {
		for _, m := range was.Members {
			l.add(m, -1, 0)
		}
	}
	if is == nil {
		l.add(l.led[was.UID].node, 0, -1)
		delete(l.led, was.UID)
		return
	}
	for _, m := range is.Members {
		l.add(m, 1, 0)
	}
	if was == nil {
		leader := is.Leader
		if early, known := l.led[is.UID]; known {
			leader = early.node
		}
		l.led[is.UID] = leadership{leader, true}
		l.add(leader, 0, 1)
	}
}

func (l *loads) add(n id.NodeID, replicas, leaders int) {
	c := l.nodes[n]
	l.nodes[n] = Load{c.Replicas + replicas, c.Leaders + leaders}
}

// leads records that a queue has a new leader.
func (l *loads) leads(q id.QueueUID, n id.NodeID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.led[q]
	if was.counted {
		l.add(was.node, 0, -1)
		l.add(n, 0, 1)
	}
	l.led[q] = leadership{n, was.counted}
}
