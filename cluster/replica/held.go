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
		leader, _ := q.group.Leader()
		if leader == q.h.cfg.Node {
			leader = "" // its Lead command is still to be applied
		}
		return x, &raftfsm.NotLeaderError{Group: q.uid.Group(), Leader: leader}
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
	q.loadHeld(&x, ds, room)
	return x, nil
}

// loadHeld reads the messages that are held, as many as there is room for, but at least one if
// there is any.
func (q *Member) loadHeld(x *traffic.Holding, ds []quorumq.Delivery, room int64) {
	most := int64(q.h.cfg.MaxHeldBytes)
	if room != traffic.NoRoomLimit {
		most = min(most, room)
	}
	x.Deliveries = make([]traffic.Delivery, 0, len(ds))
	bytes := int64(0)
	for _, d := range ds {
		h, err := q.load(d)
		if err != nil {
			continue // settled meanwhile
		}
		if bytes += h.Size(); room == 0 || bytes > most && len(x.Deliveries) > 0 {
			x.Last, x.Cut = d.MsgID-1, room != traffic.NoRoomLimit
			if !x.Cut {
				q.lose(d)
			}
			return
		}
		x.Deliveries = append(x.Deliveries, h)
	}
}
