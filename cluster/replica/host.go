package replica

import (
	"sync"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/cluster/replica/machine"
	"github.com/quorate/quorate/cluster/replica/mailbox"
	"github.com/quorate/quorate/cluster/replica/presence"
	"github.com/quorate/quorate/cluster/replica/timer"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/raftfsm"
)

// Host holds this node's members of queue groups. Only the reconcile loop decides about the set of
// groups; mu guards the map for everyone else. Exported methods may be called concurrently; the
// transport and gateways may call theirs only after Start.
type Host struct {
	cfg      Config
	above    Above // set by Start, and not read before
	bodies   *raftfsm.BodyCache
	pipeline raftfsm.Pipeline

	decoders machine.Decoders
	workers  *mailbox.Workers
	timers   *timer.Timers
	unused   *unused
	confirms *metadata.Confirmations
	gateways *presence.Nodes
	loops    sync.WaitGroup // of Start

	woken chan struct{} // of capacity 1: reconcile although the view has not changed
	mends chan struct{} // of capacity 1: a member has lost what it had stored
	// changes is of capacity 1: the members of a queue that this node leads may have to change.
	changes chan struct{}
	joins   chan struct{} // of capacity 1: a member that joins needs a base
	// The next four belong to the reconcile loop: the view that it followed last; the queues that need attention;
	// those that are gone and not deleted yet; and whether it has deleted orphaned files.
	seen   *catalog.View
	todo   map[id.QueueUID]struct{}
	toDrop map[id.QueueUID]struct{}
	swept  bool

	watcher watcher
	ledHere awaited // by this node, with a configuration in force
	learned awaited // a leader, by this node's member
	loads   *loads
	opening sync.WaitGroup // goroutines of wake

	mu       sync.RWMutex // guards what follows
	queues   map[id.QueueUID]*Member
	claims   map[id.QueueUID]chan struct{} // being opened; closed when done
	demand   demand                        // to be opened before others
	wakers   int                           // goroutines that open what is in demand
	young    map[id.QueueUID]struct{}      // opened on demand, in no view that was followed yet
	changing map[id.QueueUID]struct{}      // held here, with a change of members in progress
	joiners  map[id.QueueUID]*joiner       // members that begin with nothing, not opened yet
	asleep   map[id.QueueUID]*asleep       // members that hibernate
	unsaved  bool                          // some were closed since the last version of the records
	savedAt  time.Time                     // when the last version was written
	wanted   int                           // queues of the view that this node is a member of
	followed uint64                        // index of the view that was followed last
	opened   bool                          // all were open once; after that, new queues do not make the node unready
	failures error                         // of the last reconciliation
	damaged  map[id.QueueUID]error         // members that are kept closed, and why
	full     bool                          // the disk is full: members are not opened
	closed   bool
}

// joiner is a member that is to begin with nothing. It is not opened before it has its base: how far its group was
// when a leader knew that no former member of this node had a vote any longer. Without a base, members that have only
// an old configuration would take it for the former member (docs/adr/0006-changes-of-members.md).
type joiner struct {
	change uint64
	known  bool // the base was given, or the leader is of an older build, which gives none
	base   raftfsm.Base
	waits  error // why no base was given at the last attempt
}

// Member returns the local member of a queue, nil if none is open.
func (h *Host) Member(q id.QueueUID) *Member {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.queues[q]
}

// Members returns the local members that are open, in no order.
func (h *Host) Members() []*Member {
	h.mu.RLock()
	defer h.mu.RUnlock()
	qs := make([]*Member, 0, len(h.queues))
	for _, q := range h.queues {
		qs = append(qs, q)
	}
	return qs
}

// TimeSet records that the cluster's time was set.
func (h *Host) TimeSet() { h.timers.TimeSet() }

// Mends gets a value when a member has lost what it had stored; it is of capacity 1.
func (h *Host) Mends() <-chan struct{} { return h.mends }

// Changes gets a value when the members of a queue that this node leads may have to change; it is
// of capacity 1.
func (h *Host) Changes() <-chan struct{} { return h.changes }
