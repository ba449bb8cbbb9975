package cluster

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// gateway is this node's end of every queue that its clients use: it finds the leader,
// carries commands to it, here or on a peer, and brings answers and deliveries back.
//
// The maps belong to mu; each Queue looks after itself. No method blocks, deliver excepted,
// and none calls a Queue while it holds mu.
type gateway struct {
	c *Cluster

	sessions atomic.Uint64 // numbers the sessions of this epoch

	mu     sync.Mutex
	queues map[id.QueueUID]*Queue
	young  map[id.QueueUID]struct{} // of queues that the host had not followed when it looked last
	calls  map[uint64]call          // sent to peers and not answered
	last   uint64                   // number of the newest call
	closed bool
}

// call is a command on its way to a peer.
type call struct {
	peer   id.NodeID
	flight flight
}

func newGateway(c *Cluster) *gateway {
	return &gateway{
		c: c, queues: map[id.QueueUID]*Queue{}, young: map[id.QueueUID]struct{}{}, calls: map[uint64]call{},
	}
}

// queue returns this node's end of a queue, nil after close.
func (g *gateway) queue(uid id.QueueUID) *Queue {
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

// followed ends queues that came and went between two views that the host has followed:
// no comparison of the two shows them. A queue that is in v is the comparisons' from then on.
func (g *gateway) followed(v *catalog.View) {
	g.mu.Lock()
	young := keys(g.young)
	g.mu.Unlock()
	newest := g.c.views.View() // not older than what any of them was found in
	for _, uid := range young {
		if _, there := newest.QueueByUID(uid); !there {
			g.queueGone(uid)
		} else if _, there = v.QueueByUID(uid); there {
			g.mu.Lock()
			delete(g.young, uid)
			g.mu.Unlock()
		}
	}
}

// known returns the end of a queue if clients of this node use it.
func (g *gateway) known(uid id.QueueUID) (*Queue, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	q, ok := g.queues[uid]
	return q, ok
}

func (g *gateway) all() []*Queue {
	g.mu.Lock()
	defer g.mu.Unlock()
	qs := make([]*Queue, 0, len(g.queues))
	for _, q := range g.queues {
		qs = append(qs, q)
	}
	return qs
}

// send carries a command to the node that should lead; the answer reaches the flight's
// queue as an event.
func (g *gateway) send(to id.NodeID, f flight, c raftfsm.Command) {
	q := f.queue
	if to == g.c.cfg.Node {
		g.c.host.submit(q.uid, c, func(r quorumq.Reply, err error) {
			if err == nil && r.Delivery != nil {
				g.load(f, r)
				return
			}
			q.answered(answer{flight: f, reply: r, err: err})
		})
		return
	}
	g.call(to, f, func(request uint64) *nodev1.Frame {
		return &nodev1.Frame{Kind: &nodev1.Frame_QueueCommand{QueueCommand: &nodev1.QueueCommand{
			Request: request, Queue: uint64(q.uid), Header: c.Header, Bodies: c.Bodies, Lazy: c.Lazy,
		}}}
	})
}

// hurry asks the node that should lead to let lazy commands wait no longer. It may get lost:
// then they wait their time.
func (g *gateway) hurry(to id.NodeID, q id.QueueUID) {
	if to == g.c.cfg.Node {
		g.c.host.hurry(q)
		return
	}
	_ = g.c.mux.Send(to, &nodev1.Frame{Kind: &nodev1.Frame_QueueCommand{QueueCommand: &nodev1.QueueCommand{Queue: uint64(q)}}})
}

// load completes the answer to a Get of the local member.
func (g *gateway) load(f flight, r quorumq.Reply) {
	g.c.host.load(f.queue.uid, *r.Delivery, func(d heldDelivery, err error) {
		if err != nil {
			// The message is assigned, and only its session's end brings it back.
			err = fmt.Errorf("%w: %w", raftfsm.ErrUnknownOutcome, err)
		}
		f.queue.answered(answer{flight: f, reply: r, got: &d, err: err})
	})
}

// resume asks the leader for what a consumer holds above an id.
// Room bounds the bytes of the answer; if it is not noRoomLimit, the leader sends nothing by
// itself until it has answered in full.
func (g *gateway) resume(to id.NodeID, f flight, key quorumq.ConsumerKey, after quorumq.MsgID, room int64) {
	q := f.queue
	if to == g.c.cfg.Node {
		g.c.host.held(q.uid, key, after, room, func(h holding, err error) {
			a := answer{flight: f, held: h.ds, cut: h.cut, reply: quorumq.Reply{LastMsgID: h.last}, err: err}
			if errors.Is(err, ErrConsumerGone) {
				a.reply.Code, a.err = quorumq.CodeUnknownConsumer, nil
			}
			q.answered(a)
		})
		return
	}
	g.call(to, f, func(request uint64) *nodev1.Frame {
		r := &nodev1.Resume{
			Request: request, Queue: uint64(q.uid),
			Epoch: uint64(key.Epoch), Session: key.Session, Tag: key.Tag, After: uint64(after),
		}
		if room >= 0 {
			r.Room = proto.Uint64(uint64(room))
		}
		return &nodev1.Frame{Kind: &nodev1.Frame_Resume{Resume: r}}
	})
}

func (g *gateway) call(to id.NodeID, f flight, frame func(request uint64) *nodev1.Frame) {
	g.mu.Lock()
	g.last++
	request := g.last
	g.calls[request] = call{peer: to, flight: f}
	g.mu.Unlock()
	err := g.c.mux.Send(to, frame(request))
	if err == nil {
		return
	}
	if _, mine := g.take(request); !mine {
		return // the link went down meanwhile and the call was answered so
	}
	// What was never queued is not in any log.
	if errors.Is(err, transport.ErrLinkFull) {
		err = raftfsm.ErrBusy
	} else {
		err = &raftfsm.NotLeaderError{Group: f.queue.uid.Group()}
	}
	f.queue.answered(answer{flight: f, err: err})
}

func (g *gateway) take(request uint64) (call, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.calls[request]
	delete(g.calls, request)
	return c, ok
}

// handleAnswer takes what a peer that leads sent back.
func (g *gateway) handleAnswer(from transport.Peer, f *nodev1.Frame) {
	switch k := f.GetKind().(type) {
	case *nodev1.Frame_QueueReply:
		if c, ok := g.take(k.QueueReply.GetRequest()); ok {
			c.flight.queue.answered(g.answerOf(c.flight, k.QueueReply))
		}
	case *nodev1.Frame_Deliveries:
		g.deliver(id.QueueUID(k.Deliveries.GetQueue()), g.heldOf(k.Deliveries.GetDeliveries()))
	case *nodev1.Frame_Notice:
		n := k.Notice
		g.notice(id.QueueUID(n.GetQueue()), quorumq.Notice{
			Consumer: g.key(n.GetEpoch(), n.GetSession(), n.GetTag()),
			Kind:     quorumq.NoticeKind(n.GetKind()),
			Messages: quorumq.MsgIDRange{First: quorumq.MsgID(n.GetFirst()), Last: quorumq.MsgID(n.GetLast())},
		})
	default:
		g.c.cfg.Logger.Warn("peer sent an answer of an unknown kind", "peer", from.Node, "kind", fmt.Sprintf("%T", k))
	}
}

func (g *gateway) key(epoch, session uint64, tag uint32) quorumq.ConsumerKey {
	return quorumq.ConsumerKey{
		SessionKey: quorumq.SessionKey{Node: g.c.cfg.Node, Epoch: id.Epoch(epoch), Session: session},
		Tag:        tag,
	}
}

func (g *gateway) heldOf(ds []*nodev1.Delivery) []heldDelivery {
	out := make([]heldDelivery, len(ds))
	for i, d := range ds {
		out[i] = heldDelivery{
			Delivery: quorumq.Delivery{
				Consumer:      g.key(d.GetEpoch(), d.GetSession(), d.GetTag()),
				MsgID:         quorumq.MsgID(d.GetMsgId()),
				DeliveryCount: d.GetDeliveryCount(),
				AcquiredCount: d.GetAcquiredCount(),
			},
			Message:     d.GetMessage(),
			Annotations: d.GetAnnotations(),
		}
	}
	return out
}

func (g *gateway) answerOf(f flight, r *nodev1.QueueReply) answer {
	a := answer{flight: f, reply: quorumq.Reply{
		Code:      quorumq.ReplyCode(r.GetCode()),
		Next:      quorumq.Seq(r.GetNext()),
		Stored:    int(r.GetStored()),
		Count:     r.GetCount(),
		LastMsgID: quorumq.MsgID(r.GetLastMsgId()),
	}}
	for _, s := range r.GetRefused() {
		a.reply.Refused = append(a.reply.Refused, quorumq.Seq(s))
	}
	if d := r.GetDelivery(); d != nil {
		held := g.heldOf([]*nodev1.Delivery{d})
		a.got = &held[0]
		a.reply.Delivery = &a.got.Delivery
	}
	a.held, a.cut = g.heldOf(r.GetHeld()), r.GetCut()
	if e := r.GetError(); e != nil {
		a.err = errorOf(f.queue.uid, e)
	}
	return a
}

func errorOf(q id.QueueUID, e *nodev1.QueueError) error {
	switch e.GetKind() {
	case nodev1.QueueError_KIND_NOT_LEADER, nodev1.QueueError_KIND_NO_SUCH_QUEUE:
		// A node that does not host the queue may just not have opened it yet; whether the
		// queue exists is the view's to say.
		return &raftfsm.NotLeaderError{Group: q.Group(), Leader: id.NodeID(e.GetLeader())}
	case nodev1.QueueError_KIND_BUSY:
		return raftfsm.ErrBusy
	case nodev1.QueueError_KIND_REFUSED:
		return fmt.Errorf("%w: %s", errRefusedForGood, e.GetText())
	case nodev1.QueueError_KIND_UNKNOWN_OUTCOME, nodev1.QueueError_KIND_UNSPECIFIED:
	}
	return raftfsm.ErrUnknownOutcome
}

// errRefusedForGood marks a command that no leader will ever take.
var errRefusedForGood = errors.New("cluster: command refused")

// deliver takes deliveries from the local leader or from a peer, in order. It waits while
// more than maxInboxBytes of the queue's have not been looked at.
func (g *gateway) deliver(uid id.QueueUID, ds []heldDelivery) {
	if q, ok := g.known(uid); ok {
		q.delivered(ds)
	}
}

// notice takes a notice to one of this node's consumers.
func (g *gateway) notice(uid id.QueueUID, n quorumq.Notice) {
	if q, ok := g.known(uid); ok {
		q.noticed(n)
	}
}

// leaderChanged tells what the local member of the group knows of its leader.
func (g *gateway) leaderChanged(uid id.QueueUID, leader id.NodeID) {
	if q, ok := g.known(uid); ok {
		q.led(leader)
	}
}

// queueGone ends a queue that the catalog has no more.
func (g *gateway) queueGone(uid id.QueueUID) {
	g.mu.Lock()
	q, ok := g.queues[uid]
	delete(g.queues, uid)
	delete(g.young, uid)
	g.mu.Unlock()
	if ok {
		q.end(fmt.Errorf("%w: %s was deleted", ErrNoSuchQueue, uid))
	}
}

// queueDissolves ends the consumers of a queue that is being deleted. What was published
// before still goes there and is dead-lettered.
func (g *gateway) queueDissolves(uid id.QueueUID) {
	if q, ok := g.known(uid); ok {
		q.dissolves()
	}
}

func (g *gateway) linkUp(transport.Peer) {
	for _, q := range g.all() {
		q.wake()
	}
}

// linkDown answers everything that is on its way to the peer: nobody knows what became of it.
func (g *gateway) linkDown(p transport.Peer) {
	g.mu.Lock()
	var lost []flight
	for request, c := range g.calls {
		if c.peer == p.Node {
			lost = append(lost, c.flight)
			delete(g.calls, request)
		}
	}
	g.mu.Unlock()
	for _, f := range lost {
		f.queue.answered(answer{flight: f, err: raftfsm.ErrUnknownOutcome})
	}
	for _, q := range g.all() {
		q.lostLink(p.Node)
	}
}

// hostHangs sends on to others what was given to this node's own members: its disk hangs, so
// that others lead, or soon will.
func (g *gateway) hostHangs() {
	for _, q := range g.all() {
		q.lostLink(g.c.cfg.Node)
	}
}

func (g *gateway) close() {
	g.mu.Lock()
	g.closed = true
	qs := g.queues
	g.queues = map[id.QueueUID]*Queue{}
	g.mu.Unlock()
	for _, q := range qs {
		q.end(fmt.Errorf("%w: queue %s", ErrClosed, q.uid))
	}
}
