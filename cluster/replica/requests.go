package replica

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// HandleRequest handles a request of a peer's gateway; it is a transport.Handler.
func (h *Host) HandleRequest(from transport.Peer, f *nodev1.Frame, reply func(*nodev1.Frame) error) {
	switch k := f.GetKind().(type) {
	case *nodev1.Frame_QueueCommand:
		h.handleCommand(k.QueueCommand, reply)
	case *nodev1.Frame_Resume:
		h.handleResume(from, k.Resume, reply)
	default:
		h.cfg.Logger.Warn("peer sent a request of an unknown kind", "peer", from.Node, "kind", fmt.Sprintf("%T", k))
	}
}

// handleCommand passes a peer's command to the local member and sends the reply back. If there is
// no stream for the reply, it is lost, and the gateway asks again.
func (h *Host) handleCommand(c *nodev1.QueueCommand, reply func(*nodev1.Frame) error) {
	q := id.QueueUID(c.GetQueue())
	if len(c.GetHeader()) == 0 {
		h.Flush(q)
		return
	}
	answer := func(r *nodev1.QueueReply) {
		r.Request = c.GetRequest()
		h.reply(q, r, reply)
	}
	h.Submit(q, raftfsm.Command{Header: c.GetHeader(), Bodies: c.GetBodies(), Deferrable: c.GetDeferrable()}, func(r quorumq.Reply, err error) {
		if err != nil {
			answer(&nodev1.QueueReply{Error: queueError(err)})
			return
		}
		if r.Delivery == nil {
			answer(wireReply(r))
			return
		}
		h.Load(q, *r.Delivery, func(d traffic.Delivery, err error) {
			if err != nil {
				// The message is assigned. Only the end of its session returns it.
				answer(&nodev1.QueueReply{Error: &nodev1.QueueError{
					Kind: nodev1.QueueError_KIND_UNKNOWN_OUTCOME, Text: err.Error(),
				}})
				return
			}
			w := wireReply(r)
			w.Delivery = wireDelivery(&d)
			answer(w)
		})
	})
}

// handleResume answers with the messages that the consumer holds after r.After, as many as there is
// room for.
func (h *Host) handleResume(from transport.Peer, r *nodev1.Resume, reply func(*nodev1.Frame) error) {
	q := id.QueueUID(r.GetQueue())
	key := quorumq.ConsumerKey{
		SessionKey: quorumq.SessionKey{Node: from.Node, Epoch: id.Epoch(r.GetEpoch()), Session: r.GetSession()},
		Tag:        r.GetTag(),
	}
	room := int64(traffic.NoRoomLimit)
	if r.Room != nil {
		room = int64(min(r.GetRoom(), math.MaxInt64))
	}
	h.Held(q, key, quorumq.MsgID(r.GetAfter()), room, func(x traffic.Holding, err error) {
		w := &nodev1.QueueReply{Request: r.GetRequest(), LastMsgId: uint64(x.Last), Cut: x.Cut}
		switch {
		case errors.Is(err, traffic.ErrConsumerGone):
			w.Code = uint32(quorumq.CodeUnknownConsumer)
		case err != nil:
			w.Error = queueError(err)
		}
		for i := range x.Deliveries {
			w.Held = append(w.Held, wireDelivery(&x.Deliveries[i]))
		}
		h.reply(q, w, reply)
	})
}

// reply sends a reply on the stream that the request came from. If there is no room, it tries
// again, because the gateway would otherwise wait as long as the connection is up.
func (h *Host) reply(q id.QueueUID, r *nodev1.QueueReply, send func(*nodev1.Frame) error) {
	err := send(&nodev1.Frame{Kind: &nodev1.Frame_QueueReply{QueueReply: r}})
	switch {
	case errors.Is(err, transport.ErrStreamFull) && h.cfg.Life.Err() == nil:
		time.AfterFunc(hostRetry, func() { h.reply(q, r, send) })
	case err != nil:
		h.cfg.Logger.Debug("reply not sent", "queue", q.String(), "error", err)
	}
}

// wireReply converts a reply, without the parts that other frames carry.
func wireReply(r quorumq.Reply) *nodev1.QueueReply {
	w := &nodev1.QueueReply{
		Code:      uint32(r.Code),
		Next:      uint64(r.Next),
		Stored:    uint64(r.Stored),
		Count:     r.Count,
		LastMsgId: uint64(r.LastMsgID),
	}
	for _, s := range r.Refused {
		w.Refused = append(w.Refused, uint64(s))
	}
	return w
}

// queueError maps errors to kinds, from which the gateway sees whether it may send the command
// again.
func queueError(err error) *nodev1.QueueError {
	e := &nodev1.QueueError{Kind: nodev1.QueueError_KIND_UNKNOWN_OUTCOME, Text: err.Error()}
	var redirect *raftfsm.NotLeaderError
	var tooLarge *raftfsm.TooLargeError
	switch {
	case errors.As(err, &redirect):
		e.Kind, e.Leader = nodev1.QueueError_KIND_NOT_LEADER, string(redirect.Leader)
	case errors.Is(err, raftfsm.ErrStopped):
		e.Kind = nodev1.QueueError_KIND_NOT_LEADER
	case errors.Is(err, raftfsm.ErrBusy):
		e.Kind = nodev1.QueueError_KIND_BUSY
	case errors.Is(err, traffic.ErrNoSuchQueue):
		e.Kind = nodev1.QueueError_KIND_NO_SUCH_QUEUE
	case errors.As(err, &tooLarge):
		e.Kind = nodev1.QueueError_KIND_REFUSED
	}
	return e
}
