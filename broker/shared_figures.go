package broker

import (
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/id"
)

const (
	// figuresFreshFor is how old the figures of a list of queues may be.
	figuresFreshFor = time.Second
	// figuresTimeout bounds a question to all nodes for them; nodes that do not answer within 2 s are left out.
	figuresTimeout = 5 * time.Second
)

// sharedFigures are the newest figures of all queues, which lists share: however many ask, each node is asked once in
// figuresFreshFor.
type sharedFigures struct {
	mu   sync.Mutex // held while the nodes are asked
	last *allFigures
}

// allFigures are the figures of one time. They are not changed.
type allFigures struct {
	at     time.Time
	led    *cluster.AllFigures
	alive  map[id.NodeID]bool
	lost   map[id.QueueUID][]id.NodeID
	silent []string
}

// online reports whether a queue's member on a node is there and has what it had stored.
func (f *allFigures) online(q id.QueueUID, n id.NodeID) bool {
	return f.alive[n] && !slices.Contains(f.lost[q], n)
}

// sharedLosses are the newest cluster.LostMembers, which lists and single queues share like sharedFigures.
type sharedLosses struct {
	mu   sync.Mutex // held while the nodes are asked
	at   time.Time
	last map[id.QueueUID][]id.NodeID // nil: the nodes were not asked yet
}
