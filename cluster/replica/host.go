package replica

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/each"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// Host holds this node's members of queue groups. The set of groups belongs to the
// reconcile loop, which alone opens and closes them; mu guards the map for all others.
// Exported methods may be called concurrently, those of the transport and of gateways from Start on.
type Host struct {
	cfg    Config
	above  Above // given to Start, and read by nobody before
	bodies *raftfsm.BodyCache

	decoders decoders
	workers  *workers
	timers   *timers
	unused   *unused
	peers    *peers
	loops    sync.WaitGroup // of Start

	woken chan struct{} // of capacity 1: reconcile without a change of the view
	mends chan struct{} // of capacity 1: a member has lost what it had stored
	// changes is of capacity 1: the members of a queue that is led here may have to change.
	changes chan struct{}
	// The next four are the reconcile loop's: the view that was followed last, the queues at
	// which it has to look, those that are gone and not deleted yet, and whether files of
	// others were deleted.
	seen   *catalog.View
	todo   map[id.QueueUID]struct{}
	toDrop map[id.QueueUID]struct{}
	swept  bool

	watcher watcher
	loads   *loads
	opening sync.WaitGroup // goroutines of wake

	mu       sync.RWMutex // guards what follows
	queues   map[id.QueueUID]*Member
	claims   map[id.QueueUID]chan struct{} // being opened; closed when done
	demand   []id.QueueUID                 // to be opened before others, oldest first
	demanded map[id.QueueUID]struct{}      // what is in demand
	wakers   int                           // goroutines that open what is in demand
	changing map[id.QueueUID]struct{}      // held here, with a change of members under way
	asleep   map[id.QueueUID]*asleep       // members that hibernate
	unnoted  bool                          // some were closed since they were noted on disk
	noted    time.Time                     // when they were
	wanted   int                           // queues of the view that this node is a member of
	followed uint64                        // index of the view that was followed last
	opened   bool                          // all were open once; new queues do not make the node unready
	failures error                         // of the last reconciliation
	damaged  map[id.QueueUID]error         // members that are kept closed, and why
	full     bool                          // the disk is: members are not opened
	closed   bool
}

// New returns a host that has no member open, with what this node has noted of members that
// hibernate. Start, or Close, comes next.
func New(c Config) *Host {
	if c.MaxHeldBytes == 0 {
		c.MaxHeldBytes = maxHeldBytes
	}
	nothing := catalog.New().View() // all that the first view has is news
	h := &Host{
		cfg:    c,
		bodies: raftfsm.NewBodyCache(c.BodyCacheBytes),
		// Workers wait for disks when bodies are no longer in memory.
		workers: startWorkers(4 * runtime.GOMAXPROCS(0)),
		unused:  newUnused(),
		peers:   newPeers(c.Node, c.Epoch),
		woken:   make(chan struct{}, 1),
		mends:   make(chan struct{}, 1),
		changes: make(chan struct{}, 1),

		seen:     nothing,
		loads:    newLoads(nothing),
		todo:     map[id.QueueUID]struct{}{},
		changing: map[id.QueueUID]struct{}{},
		asleep:   map[id.QueueUID]*asleep{},
		toDrop:   map[id.QueueUID]struct{}{},
		claims:   map[id.QueueUID]chan struct{}{},
		demanded: map[id.QueueUID]struct{}{},
		queues:   map[id.QueueUID]*Member{},
		damaged:  map[id.QueueUID]error{},
	}
	h.timers = newTimers(c.Clock.NowMs, h.expire, h.rearm)
	h.watcher.wake = make(chan struct{}, 1)
	h.readNotes()
	return h
}

// Start follows the view from now on: it opens the node's members, until Config.Life ends, and
// notifies those above of what happens. It is called once, when those above are there.
func (h *Host) Start(above Above) {
	h.above = above
	done := h.cfg.Life.Done()
	h.loops.Go(func() { h.timers.run(done) })
	h.loops.Go(func() { h.watcher.run(done) })
	h.loops.Go(func() { h.unused.run(h.cfg.Life, h.deleteUnused) })
	h.loops.Go(func() { h.followReach(done) })
	h.loops.Go(func() { h.hibernate(done) })
	h.loops.Go(func() { h.reconcile(done) })
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

// Submit gives a command to the local member. done is called exactly once, perhaps on
// the apply path, and must not block. Errors: *raftfsm.NotLeaderError, raftfsm.ErrBusy,
// raftfsm.ErrStopped, raftfsm.ErrUnknownOutcome, traffic.ErrNoSuchQueue.
func (h *Host) Submit(q id.QueueUID, c raftfsm.Command, done func(quorumq.Reply, error)) {
	m := h.Member(q)
	if m == nil {
		h.Wake(q) // whoever asks tries again
		done(quorumq.Reply{}, h.NotHosted(q))
		return
	}
	m.submit(c, done)
}

// Flush lets deferrable commands of a queue wait no longer.
func (h *Host) Flush(q id.QueueUID) {
	if m := h.Member(q); m != nil {
		m.group.Flush()
	}
}

// Load adds to the delivery of a Get what it delivers, off the apply path. done is
// called exactly once; errors as of submit, or of reading the body.
func (h *Host) Load(q id.QueueUID, d quorumq.Delivery, done func(traffic.Delivery, error)) {
	m := h.Member(q)
	if m == nil {
		done(traffic.Delivery{}, h.NotHosted(q))
		return
	}
	if !m.box.post(func() { done(m.load(d)) }) {
		done(traffic.Delivery{}, raftfsm.ErrStopped)
	}
}

// Held reads what a consumer holds above an id from the local member if that leads. done is
// called exactly once, off the apply path. If the bodies are more than maxHeldBytes, the rest
// follows as deliveries. With room, in bytes, the answer is cut instead: from now on nothing
// is delivered to the consumer until an answer is not cut.
func (h *Host) Held(q id.QueueUID, c quorumq.ConsumerKey, after quorumq.MsgID, room int64, done func(traffic.Holding, error)) {
	m := h.Member(q)
	if m == nil {
		done(traffic.Holding{}, h.NotHosted(q))
		return
	}
	if room != traffic.NoRoomLimit {
		m.back.add(c)
	}
	if !m.box.post(func() { done(m.holds(c, after, room)) }) {
		done(traffic.Holding{}, raftfsm.ErrStopped)
	}
}

// LeaderOf returns the leader as the local member knows it; false if there is no member
// that runs and takes part.
func (h *Host) LeaderOf(q id.QueueUID) (id.NodeID, bool) {
	m := h.Member(q)
	if m == nil || m.group.Failed() != nil {
		return "", false
	}
	leader, _ := m.group.Leader()
	if leader == "" {
		// One that joins has not heard of its leader yet, but others have.
		r, ok := h.cfg.Views.View().QueueByUID(q)
		return "", !ok || Joins(r, h.cfg.Node) == nil
	}
	return leader, true
}

// Rouse wakes the local member if it hibernates.
func (h *Host) Rouse(q id.QueueUID) {
	if h.sleeper(q) != nil {
		h.Wake(q)
	}
}

// expire proposes Expire for a queue whose time has come.
func (h *Host) expire(q id.QueueUID, at quorumq.Time) {
	if m := h.Member(q); m != nil {
		m.expire(at)
	} else {
		h.Wake(q) // its next leader sets the timer again
	}
}

// rearm sets the timers of queues that are led here again, for the time of the cluster was set.
func (h *Host) rearm() {
	for _, q := range h.Members() {
		q.rearm()
	}
}

// checkNodes lets every queue that this node leads compare its sessions with what is
// known of nodes.
func (h *Host) checkNodes() {
	for _, q := range h.Members() {
		if q.led.Load() != nil {
			q.box.post(q.checkNodes)
		}
	}
}

// Turned notes that the time of the cluster was set.
func (h *Host) Turned() { h.timers.turn() }

// Mends gets a value when a member has lost what it had stored; it is of capacity 1.
func (h *Host) Mends() <-chan struct{} { return h.mends }

// Changes gets a value when the members of a queue that is led here may have to change; it is of
// capacity 1.
func (h *Host) Changes() <-chan struct{} { return h.changes }

// Inbound notes that a peer's queue stream to this node came up or went down.
func (h *Host) Inbound(p transport.Peer, up bool) {
	if h.peers.inbound(p, up) {
		h.checkNodes()
	}
}

// Heard takes an epoch of a node that gossip tells.
func (h *Host) Heard(n id.NodeID, epoch id.Epoch) {
	if h.peers.heard(n, epoch) {
		h.checkNodes()
	}
}

// Ended notes that a node's process is no more.
func (h *Host) Ended(n id.NodeID) {
	if h.peers.hasEnded(n) {
		h.cfg.Logger.Info("a node's process has ended: nothing listens at its address", "peer", n)
		h.checkNodes()
	}
}

// followReach takes which nodes answer, as they are judged, until done: a connection may be up for long
// after the node at its other end has frozen, or the way there is cut.
func (h *Host) followReach(done <-chan struct{}) {
	for {
		changed := h.cfg.ReachChanged()
		news := false
		for r := range h.cfg.Views.View().Nodes() {
			n := r.ID
			_, up := h.cfg.Transport.Connected(n)
			if n != h.cfg.Node && h.peers.answers(n, !up || h.cfg.Liveness.Reaches(n)) {
				news = true
			}
		}
		if news {
			h.checkNodes()
		}
		select {
		case <-changed:
		case <-done:
			return
		}
	}
}

// over reports whether a node's lives are over for good, as the catalog has it: it was forgotten,
// or its store was given up. What its clients held need not wait for it (DC-1).
func (h *Host) over(n id.NodeID) bool {
	v := h.cfg.Views.View()
	r, known := v.Node(n)
	return v.Forgotten(n) || known && r.Vacant
}

// Ready reports how many groups are not open yet, of those that the view had at the index.
func (h *Host) Ready(index uint64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	open := len(h.queues) + len(h.damaged) + len(h.asleep)
	if h.opened = h.opened || h.followed >= index && open >= h.wanted && h.failures == nil; h.opened {
		return nil
	}
	return errors.Join(fmt.Errorf("cluster: the node is starting: %d of %d groups are open", open, h.wanted), h.failures)
}

// Close stops all members. Config.Life has ended; members that nobody has started to open are
// not opened any more.
func (h *Host) Close() error {
	h.loops.Wait()
	h.mu.Lock()
	h.closed = true
	qs := h.queues
	h.queues = map[id.QueueUID]*Member{}
	h.mu.Unlock()
	all := make([]*Member, 0, len(qs))
	for _, q := range qs {
		all = append(all, q)
	}
	h.opening.Wait()
	err := each.Of(all, maxOpening, (*Member).close)
	h.writeNotes()
	h.workers.close()
	return err
}
