package replica

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// holds is Host.Held, running on a worker.
func (q *Member) holds(c quorumq.ConsumerKey, after quorumq.MsgID, room int64) (x traffic.Holding, err error) {
	defer func() {
		if !x.Cut {
			q.back.remove(c)
		}
	}()
	l := q.led.Load()
	if l == nil {
		return x, q.notLed()
	}
	if !l.unsent.forget(c, 0) {
		return x, raftfsm.ErrBusy // its session ends
	}
	var ds []quorumq.Delivery
	known := false
	suspects := q.back.suspects()
	q.group.Read(func() {
		ds = q.machine.queue.Assigned(nil, c, after)
		x.Last, known = q.machine.queue.LastMsgID(c)
		suspects = slices.DeleteFunc(suspects, func(o quorumq.ConsumerKey) bool {
			_, there := q.machine.queue.LastMsgID(o)
			return there
		})
	})
	for _, gone := range suspects {
		q.back.remove(gone)
	}
	if !known {
		return traffic.Holding{}, fmt.Errorf("%w: the queue has no such consumer", traffic.ErrConsumerGone)
	}
	if err := q.loadHeld(&x, ds, room); err != nil {
		q.h.cfg.Logger.Warn("a message that a consumer holds cannot be read; its gateway will ask again",
			"queue", q.uid.String(), "node", c.Node, "error", err)
		return traffic.Holding{}, err
	}
	if q.led.Load() != l { // reading takes a while
		return traffic.Holding{}, q.notLed()
	}
	return x, nil
}

// notLed is the answer of a member that does not lead; it names the one that may.
func (q *Member) notLed() error {
	leader, _ := q.group.Leader()
	if leader == q.h.cfg.Node {
		leader = "" // its Lead command is still to be applied
	}
	return &raftfsm.NotLeaderError{Group: q.uid.Group(), Leader: leader}
}

// loadHeld reads the messages that are held, as many as there is room for, but at least one if
// there is any. The gateway settles the ids that the answer lacks (session.Consumer.Resumed), so only
// what the consumer no longer holds is left out. The answer ends before a message that is still held
// and cannot be read; if that is the first one, loadHeld returns the error.
func (q *Member) loadHeld(x *traffic.Holding, ds []quorumq.Delivery, room int64) error {
	most := int64(q.h.cfg.MaxHeldBytes)
	if room != traffic.NoRoomLimit {
		most = min(most, room)
	}
	x.Deliveries = make([]traffic.Delivery, 0, len(ds))
	bytes := int64(0)
	for _, d := range ds {
		h, err := q.load(d)
		if err != nil && !q.assigned(d) {
			continue // settled meanwhile
		}
		if err != nil && len(x.Deliveries) == 0 {
			return err
		}
		bytes += h.Size()
		if err != nil || room == 0 || bytes > most && len(x.Deliveries) > 0 {
			x.Last, x.Cut = d.MsgID-1, room != traffic.NoRoomLimit
			if !x.Cut {
				q.lose(d)
			}
			return nil
		}
		x.Deliveries = append(x.Deliveries, h)
	}
	return nil
}

// assigned reports whether the consumer of a delivery still holds it. If not, that is final, whoever
// leads the queue: numbers of deliveries are not used again.
func (q *Member) assigned(d quorumq.Delivery) (holds bool) {
	q.group.Read(func() { _, holds = q.machine.queue.Holds(d.Consumer, d.MsgID) })
	return holds
}
