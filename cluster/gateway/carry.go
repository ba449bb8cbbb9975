package gateway

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// send sends a command to the node that should lead. The answer reaches the request's queue as an event.
func (g *Gateway) send(to id.NodeID, f request, c raftfsm.Command) {
	q := f.queue
	if to == g.cfg.Node {
		g.cfg.Members.Submit(q.uid, c, func(r quorumq.Reply, err error) {
			if err == nil && r.Delivery != nil {
				g.load(f, r)
				return
			}
			q.answered(response{request: f, reply: r, err: err})
		})
		return
	}
	g.call(to, f, func(number uint64) *nodev1.Frame {
		return &nodev1.Frame{Kind: &nodev1.Frame_QueueCommand{QueueCommand: &nodev1.QueueCommand{
			Request: number, Queue: uint64(q.uid), Header: c.Header, Bodies: c.Bodies, Deferrable: c.Deferrable,
		}}}
	})
}

// flush asks the node that should lead not to let deferrable commands wait any longer. If the request is lost, they
// wait for as long as usual.
func (g *Gateway) flush(to id.NodeID, q id.QueueUID) {
	if to == g.cfg.Node {
		g.cfg.Members.Flush(q)
		return
	}
	_ = g.cfg.Transport.Send(to, &nodev1.Frame{Kind: &nodev1.Frame_QueueCommand{QueueCommand: &nodev1.QueueCommand{Queue: uint64(q)}}})
}

// load completes the answer to a Get of the local member.
func (g *Gateway) load(f request, r quorumq.Reply) {
	g.cfg.Members.Load(f.queue.uid, *r.Delivery, func(d traffic.Delivery, err error) {
		if err != nil {
			// The message is assigned. Only the end of its session returns it.
			err = fmt.Errorf("%w: %w", raftfsm.ErrUnknownOutcome, err)
		}
		f.queue.answered(response{request: f, reply: r, got: &d, err: err})
	})
}

// resume asks the leader for the deliveries that a consumer holds above an id. room limits the bytes of the answer. If
// it is not traffic.NoRoomLimit, the leader sends nothing by itself until it has answered in full.
func (g *Gateway) resume(to id.NodeID, f request, key quorumq.ConsumerKey, after quorumq.MsgID, room int64) {
	q := f.queue
	if to == g.cfg.Node {
		g.cfg.Members.Held(q.uid, key, after, room, func(h traffic.Holding, err error) {
			a := response{request: f, held: h.Deliveries, cut: h.Cut, reply: quorumq.Reply{LastMsgID: h.Last}, err: err}
			if errors.Is(err, traffic.ErrConsumerGone) {
				a.reply.Code, a.err = quorumq.CodeUnknownConsumer, nil
			}
			q.answered(a)
		})
		return
	}
	g.call(to, f, func(number uint64) *nodev1.Frame {
		r := &nodev1.Resume{
			Request: number, Queue: uint64(q.uid),
			Epoch: uint64(key.Epoch), Session: key.Session, Tag: key.Tag, After: uint64(after),
		}
		if room >= 0 {
			r.Room = proto.Uint64(uint64(room))
		}
		return &nodev1.Frame{Kind: &nodev1.Frame_Resume{Resume: r}}
	})
}

// call sends a request to a peer. The request is answered exactly once: by the peer, by PeerDown, or here if it could
// not be sent.
func (g *Gateway) call(to id.NodeID, f request, frame func(number uint64) *nodev1.Frame) {
	g.mu.Lock()
	g.last++
	number := g.last
	g.calls[number] = call{peer: to, request: f}
	g.mu.Unlock()
	err := g.cfg.Transport.Send(to, frame(number))
	if err == nil {
		return
	}
	if _, mine := g.take(number); !mine {
		return // the connection went down meanwhile, and PeerDown has answered
	}
	// What was never queued is not in any log.
	if errors.Is(err, transport.ErrStreamFull) {
		err = raftfsm.ErrBusy
	} else {
		err = &raftfsm.NotLeaderError{Group: f.queue.uid.Group()}
	}
	f.queue.answered(response{request: f, err: err})
}

// take makes the caller the one that answers the request. It returns false if another goroutine does.
func (g *Gateway) take(number uint64) (call, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.calls[number]
	delete(g.calls, number)
	return c, ok
}

// HandleAnswer handles a frame that a leading peer sent back.
func (g *Gateway) HandleAnswer(from transport.Peer, f *nodev1.Frame) {
	switch k := f.GetKind().(type) {
	case *nodev1.Frame_QueueReply:
		if c, ok := g.take(k.QueueReply.GetRequest()); ok {
			c.request.queue.answered(g.answerOf(c.request, k.QueueReply))
		}
	case *nodev1.Frame_Deliveries:
		g.Deliver(id.QueueUID(k.Deliveries.GetQueue()), g.heldOf(k.Deliveries.GetDeliveries()))
	case *nodev1.Frame_Notice:
		n := k.Notice
		g.Notice(id.QueueUID(n.GetQueue()), quorumq.Notice{
			Consumer: g.key(n.GetEpoch(), n.GetSession(), n.GetTag()),
			Kind:     quorumq.NoticeKind(n.GetKind()),
			Messages: quorumq.MsgIDRange{First: quorumq.MsgID(n.GetFirst()), Last: quorumq.MsgID(n.GetLast())},
		})
	default:
		g.cfg.Logger.Warn("peer sent an answer of an unknown kind", "peer", from.Node, "kind", fmt.Sprintf("%T", k))
	}
}

// key names a consumer of this node.
func (g *Gateway) key(epoch, session uint64, tag uint32) quorumq.ConsumerKey {
	return quorumq.ConsumerKey{
		SessionKey: quorumq.SessionKey{Node: g.cfg.Node, Epoch: id.Epoch(epoch), Session: session},
		Tag:        tag,
	}
}

// heldOf converts deliveries, and adds this node's name, which frames do not repeat.
func (g *Gateway) heldOf(ds []*nodev1.Delivery) []traffic.Delivery {
	out := make([]traffic.Delivery, len(ds))
	for i, d := range ds {
		out[i] = traffic.Delivery{
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

// answerOf converts a leader's reply, or its error.
func (g *Gateway) answerOf(f request, r *nodev1.QueueReply) response {
	a := response{request: f, reply: quorumq.Reply{
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

// errorOf distinguishes commands that were never proposed, and may be sent again, from those with an unknown outcome.
func errorOf(q id.QueueUID, e *nodev1.QueueError) error {
	switch e.GetKind() {
	case nodev1.QueueError_KIND_NOT_LEADER, nodev1.QueueError_KIND_NO_SUCH_QUEUE:
		// A node that does not host the queue may just not have opened it yet. Whether the queue exists is decided by
		// the view.
		return &raftfsm.NotLeaderError{Group: q.Group(), Leader: id.NodeID(e.GetLeader())}
	case nodev1.QueueError_KIND_BUSY:
		return raftfsm.ErrBusy
	case nodev1.QueueError_KIND_REFUSED:
		return fmt.Errorf("%w: %s", errRefusedForGood, e.GetText())
	case nodev1.QueueError_KIND_UNKNOWN_OUTCOME, nodev1.QueueError_KIND_UNSPECIFIED:
	}
	return raftfsm.ErrUnknownOutcome
}
