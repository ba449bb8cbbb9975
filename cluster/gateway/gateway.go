// Package gateway is a node's end of the queues that its clients use. A Gateway finds the leader of
// each queue, a Queue sends commands to it and repeats them after failures, and a Consumer receives
// deliveries, within the limit of a Buffer. It uses the node's own members of queues (Members) and
// the connections to other nodes (Transport).
//
// The comment of each type names the mutex that guards it. Callers act on the errors of package
// traffic; limits are in queue.go and consumer.go.
//
// # Reading order
//
//   - The state of a Queue, and its parts: alarm.go, buffer.go, outbox.go, get_session.go, state.go,
//     ops.go, space.go, consumer.go, queue.go.
//   - What happens to a Queue, and what it does then: deliveries.go, answers.go, run.go, ending.go,
//     enqueue.go, events.go.
//   - The Gateway, and how it reaches leaders: gateway.go, carry.go, pump.go.
//   - What clients call: consumer_calls.go, checkout.go, get.go, give_back.go, restore.go, unit.go.
package gateway

import (
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/disk"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/latency"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/quorumq/session"
	"github.com/quorate/quorate/raftfsm"
)

// Config has the settings of a Gateway and the parts that it uses.
type Config struct {
	Node   id.NodeID
	Epoch  id.Epoch
	Logger *slog.Logger

	ConfirmTimeout time.Duration // PUB-5; negative: never
	CommandTimeout time.Duration // of other commands without a leader (RE-5)
	PublishWindow  int           // unanswered messages per queue

	Views     *metadata.Views
	Members   Members
	Transport Transport
	Disks     *disk.Board
	Rooms     *disk.Rooms
}

// Members gives access to this node's members of queues. Methods may be called concurrently and do
// not block; done is called exactly once.
type Members interface {
	// Submit passes a command to the local member. done may be called on the apply path, and must
	// not block. Errors: *raftfsm.NotLeaderError, raftfsm.ErrBusy, raftfsm.ErrStopped,
	// raftfsm.ErrUnknownOutcome, traffic.ErrNoSuchQueue.
	Submit(q id.QueueUID, c raftfsm.Command, done func(quorumq.Reply, error))
	// Flush ends the wait of a queue's deferrable commands.
	Flush(q id.QueueUID)
	// Load reads the message of a Get's delivery. Errors are those of Submit, or of reading the
	// body.
	Load(q id.QueueUID, d quorumq.Delivery, done func(traffic.Delivery, error))
	// Held reads the messages that a consumer holds above an id, if the local member leads. The
	// answer is limited to room bytes; while answers are cut, nothing else is delivered to the
	// consumer.
	Held(q id.QueueUID, c quorumq.ConsumerKey, after quorumq.MsgID, room int64, done func(traffic.Holding, error))
	// LeaderOf returns the leader that the local member knows, "" for none; false if no local
	// member runs and takes part.
	LeaderOf(q id.QueueUID) (id.NodeID, bool)
	// Rouse wakes the local member if it hibernates.
	Rouse(q id.QueueUID)
}

// Transport sends frames to other nodes; *transport.Mux implements it.
type Transport interface {
	Send(to id.NodeID, f *nodev1.Frame) error
	Connected(to id.NodeID) (id.Epoch, bool)
}

// Gateway is this node's end of every queue that its clients use: it finds the leader, sends
// commands to it, on this node or on a peer, and returns answers and deliveries.
//
// The mutex mu guards the maps; each Queue has its own mutex. No method except Deliver blocks, and
// none calls a Queue while it holds mu.
type Gateway struct {
	cfg Config

	sessions atomic.Uint64 // numbers the sessions of this epoch
	confirms latency.Histogram
	// held counts the publishes that have found the window of a queue full; holding, those that wait for room now.
	held    atomic.Uint64
	holding atomic.Int64

	mu     sync.Mutex
	queues map[id.QueueUID]*Queue
	young  map[id.QueueUID]struct{} // queues that are not in a view which the host has compared
	calls  map[uint64]call          // sent to peers and not answered
	last   uint64                   // number of the newest call
	closed bool
}

// call is a command that was sent to a peer.
type call struct {
	peer    id.NodeID
	request request
}

// New returns a gateway without queues.
func New(c Config) *Gateway {
	return &Gateway{
		cfg: c, queues: map[id.QueueUID]*Queue{}, young: map[id.QueueUID]struct{}{}, calls: map[uint64]call{},
	}
}

// ConfirmTimes counts how long messages have waited for their confirms. Those that one answer confirms count as long as
// the oldest of them.
func (g *Gateway) ConfirmTimes() *latency.Histogram { return &g.confirms }

// Held returns how many publishes have had to wait since the start because too many messages, or bytes, waited for
// the leader of their queue, and how many wait now.
func (g *Gateway) Held() (since uint64, now int64) { return g.held.Load(), g.holding.Load() }

// Queue returns this node's end of a queue; traffic.ErrNoSuchQueue if the view has none.
func (g *Gateway) Queue(q id.QueueUID) (*Queue, error) {
	gone := fmt.Errorf("%w: queue %s is not in this node's view of the catalog", traffic.ErrNoSuchQueue, q)
	if _, ok := g.cfg.Views.View().QueueByUID(q); !ok {
		return nil, gone
	}
	end := g.open(q)
	if end == nil {
		return nil, fmt.Errorf("%w: queue %s", traffic.ErrClosed, q)
	}
	// Look again, because the host may have followed the deletion before the gateway had the queue.
	if _, ok := g.cfg.Views.View().QueueByUID(q); !ok {
		g.QueueGone(q)
		return nil, gone
	}
	return end, nil
}

// open returns this node's end of a queue, nil after Close.
func (g *Gateway) open(uid id.QueueUID) *Queue {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	q, ok := g.queues[uid]
	if !ok {
		q = newQueue(g, uid)
		g.queues[uid] = q
		g.young[uid] = struct{}{}
	}
	return q
}

// Followed ends queues that were created and deleted between two views that the host has compared,
// because no comparison shows them. Comparisons handle a queue that is in v from then on.
func (g *Gateway) Followed(v *catalog.View) {
	g.mu.Lock()
	young := slices.Collect(maps.Keys(g.young))
	g.mu.Unlock()
	newest := g.cfg.Views.View() // not older than the view that any of them was found in
	for _, uid := range young {
		if _, there := newest.QueueByUID(uid); !there {
			g.QueueGone(uid)
		} else if _, there = v.QueueByUID(uid); there {
			g.mu.Lock()
			delete(g.young, uid)
			g.mu.Unlock()
		}
	}
}

// known returns the end of a queue if clients of this node use it.
func (g *Gateway) known(uid id.QueueUID) (*Queue, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	q, ok := g.queues[uid]
	return q, ok
}

// all returns a copy, so that no lock is held while queues are called.
func (g *Gateway) all() []*Queue {
	g.mu.Lock()
	defer g.mu.Unlock()
	qs := make([]*Queue, 0, len(g.queues))
	for _, q := range g.queues {
		qs = append(qs, q)
	}
	return qs
}

// Deliver receives deliveries from the local leader or from a peer, in order. It waits while more
// than maxInboxBytes of the queue's deliveries are unprocessed.
func (g *Gateway) Deliver(uid id.QueueUID, ds []traffic.Delivery) {
	if q, ok := g.known(uid); ok {
		q.delivered(ds)
	}
}

// Notice handles a notice to one of this node's consumers.
func (g *Gateway) Notice(uid id.QueueUID, n quorumq.Notice) {
	if q, ok := g.known(uid); ok {
		q.noticed(n)
	}
}

// LeaderChanged reports the leader that the local member of the group knows.
func (g *Gateway) LeaderChanged(uid id.QueueUID, leader id.NodeID) {
	if q, ok := g.known(uid); ok {
		q.led(leader)
	}
}

// QueueGone ends a queue that is no longer in the catalog.
func (g *Gateway) QueueGone(uid id.QueueUID) {
	g.mu.Lock()
	q, ok := g.queues[uid]
	delete(g.queues, uid)
	delete(g.young, uid)
	g.mu.Unlock()
	if ok {
		q.end(fmt.Errorf("%w: %s was deleted", traffic.ErrNoSuchQueue, uid))
	}
}

// QueueDrainDeletes ends the consumers of a queue that is being deleted. Messages published before
// still go there and are dead-lettered.
func (g *Gateway) QueueDrainDeletes(uid id.QueueUID) {
	if q, ok := g.known(uid); ok {
		q.drainDeletes()
	}
}

// PeerUp sends commands that waited for a connection.
func (g *Gateway) PeerUp(transport.Peer) {
	for _, q := range g.all() {
		q.wake()
	}
}

// PeerDown ends everything that is in flight to the peer with an unknown outcome.
func (g *Gateway) PeerDown(p transport.Peer) {
	g.mu.Lock()
	var lost []request
	for number, c := range g.calls {
		if c.peer == p.Node {
			lost = append(lost, c.request)
			delete(g.calls, number)
		}
	}
	g.mu.Unlock()
	for _, f := range lost {
		f.queue.answered(response{request: f, err: raftfsm.ErrUnknownOutcome})
	}
	for _, q := range g.all() {
		q.disconnected(p.Node)
	}
}

// HostHangs sends commands that were passed to this node's own members to other nodes, because this
// node's disk hangs and others lead, or soon will.
func (g *Gateway) HostHangs() {
	for _, q := range g.all() {
		q.disconnected(g.cfg.Node)
	}
}

// Close ends all queues, with traffic.ErrClosed, or with traffic.ErrUnknownOutcome for messages and
// commands that may have reached their queue's log.
func (g *Gateway) Close() {
	g.mu.Lock()
	g.closed = true
	qs := g.queues
	g.queues = map[id.QueueUID]*Queue{}
	g.mu.Unlock()
	for _, q := range qs {
		q.end(fmt.Errorf("%w: queue %s", traffic.ErrClosed, q.uid))
	}
}

// newQueue returns a queue without a goroutine; the first event starts it.
func newQueue(g *Gateway, uid id.QueueUID) *Queue {
	key := quorumq.EnqueuerKey{Node: g.cfg.Node, Epoch: g.cfg.Epoch}
	q := &Queue{
		g: g, uid: uid,
		room: make(chan struct{}),
		// Enqueue enforces the window, so there is always room for what it has accepted.
		publisher: session.NewPublisher[publishToken](key, session.Limits{
			WindowMessages: math.MaxInt, WindowBytes: math.MaxInt64,
		}),
		consumers: map[uint64]*Consumer{},
	}
	if r, ok := g.cfg.Views.View().QueueByUID(uid); ok && r.DrainDeleting > 0 {
		q.drainDeletes()
	}
	q.looked.L = &q.mu
	q.alarm.ring = func() { q.event(func(i *inbox) { i.tick = true }) }
	return q
}
