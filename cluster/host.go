package cluster

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
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// host holds this node's members of queue groups. The set of groups belongs to the
// reconcile loop, which alone opens and closes them; mu guards the map for all others.
type host struct {
	c      *Cluster
	bodies *raftfsm.BodyCache

	decoders decoders
	workers  *workers
	timers   *timers
	unused   *unused
	peers    *peers

	maxHeldBytes int // the limit of this name; smaller in tests
	// answer sends on the link that a gateway opened, as transport.Mux does.
	answer func(p transport.Peer, f *nodev1.Frame, unsent func()) error

	woken chan struct{} // of capacity 1: reconcile without a change of the view
	mends chan struct{} // of capacity 1: a member has lost what it had stored
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
	queues   map[id.QueueUID]*hosted
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

func newHost(c *Cluster) *host {
	h := &host{
		c:      c,
		bodies: raftfsm.NewBodyCache(c.cfg.BodyCacheBytes),
		// Workers wait for disks when bodies are no longer in memory.
		workers: startWorkers(4 * runtime.GOMAXPROCS(0)),
		peers:   newPeers(c.cfg.Node, c.epoch),
		woken:   make(chan struct{}, 1),
		mends:   make(chan struct{}, 1),

		maxHeldBytes: maxHeldBytes,
		seen:         c.views.View(),
		loads:        newLoads(c.views.View()),
		todo:         map[id.QueueUID]struct{}{},
		changing:     map[id.QueueUID]struct{}{},
		asleep:       map[id.QueueUID]*asleep{},
		toDrop:       map[id.QueueUID]struct{}{},
		claims:       map[id.QueueUID]chan struct{}{},
		demanded:     map[id.QueueUID]struct{}{},
		queues:       map[id.QueueUID]*hosted{},
		damaged:      map[id.QueueUID]error{},
	}
	h.timers = newTimers(c.clock.NowMs, h.expire, h.rearm)
	h.unused = newUnused()
	h.watcher.wake = make(chan struct{}, 1)
	h.answer = func(p transport.Peer, f *nodev1.Frame, unsent func()) error { return c.mux.Answer(p, f, unsent) }
	return h
}

// queue returns the local member, nil if there is none.
func (h *host) queue(q id.QueueUID) *hosted {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.queues[q]
}

func (h *host) all() []*hosted {
	h.mu.RLock()
	defer h.mu.RUnlock()
	qs := make([]*hosted, 0, len(h.queues))
	for _, q := range h.queues {
		qs = append(qs, q)
	}
	return qs
}

// Submit gives a command to the local member. done is called exactly once, perhaps on
// the apply path, and must not block. Errors: *raftfsm.NotLeaderError, raftfsm.ErrBusy,
// raftfsm.ErrStopped, raftfsm.ErrUnknownOutcome, traffic.ErrNoSuchQueue.
func (h *host) Submit(q id.QueueUID, c raftfsm.Command, done func(quorumq.Reply, error)) {
	m := h.queue(q)
	if m == nil {
		h.wake(q) // whoever asks tries again
		done(quorumq.Reply{}, h.notHosted(q))
		return
	}
	m.submit(c, done)
}

// Flush lets deferrable commands of a queue wait no longer.
func (h *host) Flush(q id.QueueUID) {
	if m := h.queue(q); m != nil {
		m.group.Flush()
	}
}

// Load adds to the delivery of a Get what it delivers, off the apply path. done is
// called exactly once; errors as of submit, or of reading the body.
func (h *host) Load(q id.QueueUID, d quorumq.Delivery, done func(traffic.Delivery, error)) {
	m := h.queue(q)
	if m == nil {
		done(traffic.Delivery{}, h.notHosted(q))
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
func (h *host) Held(q id.QueueUID, c quorumq.ConsumerKey, after quorumq.MsgID, room int64, done func(traffic.Holding, error)) {
	m := h.queue(q)
	if m == nil {
		done(traffic.Holding{}, h.notHosted(q))
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
func (h *host) LeaderOf(q id.QueueUID) (id.NodeID, bool) {
	m := h.queue(q)
	if m == nil || m.group.Failed() != nil {
		return "", false
	}
	leader, _ := m.group.Leader()
	if leader == "" {
		// One that joins has not heard of its leader yet, but others have.
		r, ok := h.c.views.View().QueueByUID(q)
		return "", !ok || joins(r, h.c.cfg.Node) == nil
	}
	return leader, true
}

// Rouse wakes the local member if it hibernates.
func (h *host) Rouse(q id.QueueUID) {
	if h.sleeper(q) != nil {
		h.wake(q)
	}
}

// expire proposes Expire for a queue whose time has come.
func (h *host) expire(q id.QueueUID, at quorumq.Time) {
	if m := h.queue(q); m != nil {
		m.expire(at)
	} else {
		h.wake(q) // its next leader sets the timer again
	}
}

// rearm sets the timers of queues that are led here again, for the time of the cluster was set.
func (h *host) rearm() {
	for _, q := range h.all() {
		q.rearm()
	}
}

// checkNodes lets every queue that this node leads compare its sessions with what is
// known of nodes.
func (h *host) checkNodes() {
	for _, q := range h.all() {
		if q.led.Load() != nil {
			q.box.post(q.checkNodes)
		}
	}
}

// ended takes that a node's process is no more.
func (h *host) ended(n id.NodeID) {
	if h.peers.hasEnded(n) {
		h.c.log.Info("a node's process has ended: nothing listens at its address", "peer", n)
		h.checkNodes()
	}
}

// followReach takes which nodes answer, as they are judged, until done: a link may be up for long
// after the node at its other end has frozen, or the way there is cut.
func (h *host) followReach(done <-chan struct{}) {
	for {
		changed := h.c.ReachChanged()
		news := false
		for n := range h.c.nodeIDs() {
			_, up := h.c.mux.Connected(n)
			if n != h.c.cfg.Node && h.peers.answers(n, !up || h.c.liveness.Reaches(n)) {
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

// over tells whether a node's lives are over for good, as the catalog has it: it was forgotten,
// or its store was given up. What its clients held need not wait for it (DC-1).
func (h *host) over(n id.NodeID) bool {
	v := h.c.View()
	r, known := v.Node(n)
	return v.Forgotten(n) || known && r.Vacant
}

// eachOf runs f for all, up to maxOpening at the same time, and joins the errors.
func eachOf[T any](all []T, f func(T) error) error {
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxOpening)
	errs := make([]error, len(all))
	for i, x := range all {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = f(x)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// ready tells how many groups are not open yet, of those that the view had at the index.
func (h *host) ready(index uint64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	open := len(h.queues) + len(h.damaged) + len(h.asleep)
	if h.opened = h.opened || h.followed >= index && open >= h.wanted && h.failures == nil; h.opened {
		return nil
	}
	return errors.Join(fmt.Errorf("cluster: the node is starting: %d of %d groups are open", open, h.wanted), h.failures)
}

// close stops all groups. The reconcile loop has ended.
func (h *host) close() error {
	h.mu.Lock()
	h.closed = true
	qs := h.queues
	h.queues = map[id.QueueUID]*hosted{}
	h.mu.Unlock()
	all := make([]*hosted, 0, len(qs))
	for _, q := range qs {
		all = append(all, q)
	}
	h.opening.Wait()
	err := eachOf(all, (*hosted).close)
	h.writeNotes()
	h.workers.close()
	return err
}
