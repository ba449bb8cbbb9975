package replica

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// errUnread is the base of errors about a message that a consumer holds and that cannot be read.
var errUnread = errors.New("a message that a consumer holds cannot be read")

// resume is Host.Held, running on a worker. If the first message cannot be read, the request waits, and is
// tried again while this member leads. With an error its gateway would begin anew with all that it sends to the
// queue, for all its consumers. A newer request of a consumer, after its gateway has begun anew for another
// reason, takes the place of one that waits.
func (q *Member) resume(r *resume) {
	waiting := q.resumes[r.consumer]
	if waiting != nil && waiting != r {
		waiting.answer(traffic.Holding{}, raftfsm.ErrBusy)
	}
	x, err := q.holds(r.consumer, r.after, r.room)
	if !errors.Is(err, errUnread) {
		delete(q.resumes, r.consumer)
		r.answer(x, err)
		return
	}
	if waiting == nil {
		q.h.cfg.Logger.Warn("a message cannot be read; the consumer that holds it waits until it can be, or another member leads the queue",
			"queue", q.uid.String(), "node", r.consumer.Node, "error", err)
	}
	q.resumes[r.consumer] = r
	q.back.add(r.consumer)
	time.AfterFunc(hostRetry, func() {
		again := func() {
			if q.resumes[r.consumer] == r {
				q.resume(r)
			}
		}
		if !q.box.post(again) {
			r.answer(traffic.Holding{}, raftfsm.ErrStopped)
		}
	})
}

// holds returns what a consumer holds. An error is errUnread if it may be asked again. Only workers call it.
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
	unread := q.loadHeld(&x, ds, room)
	if q.led.Load() != l { // reading takes a while
		return traffic.Holding{}, q.notLed()
	}
	if unread != nil {
		return traffic.Holding{}, fmt.Errorf("%w: %w", errUnread, unread)
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
