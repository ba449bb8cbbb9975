package queues

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
	// lossesWait bounds the wait for lost members, from the question on, once the figures of a single queue are
	// there.
	lossesWait = 200 * time.Millisecond
)

// lostMembers are the nodes of the members that have lost what they had stored, by queue. Such a member does not vote before
// it is rebuilt, although its node is there.
type lostMembers map[id.QueueUID][]id.NodeID

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
	lost   lostMembers
	silent []string
}

// online reports whether a queue's member on a node is there and has what it had stored.
func (f *allFigures) online(q id.QueueUID, n id.NodeID) bool {
	return f.alive[n] && !slices.Contains(f.lost[q], n)
}
