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

// ask finds out what a consumer holds, and posts the answer between the deliveries that were assigned before and those
// that come later. Its gateway gives up for good what the answer says was assigned and does not hold. With auto-ack a
// consumer holds nothing, so a delivery that came behind such an answer would be lost.
func (q *Member) ask(r *resume) {
	q.group.ReadActed(func() {
		s := q.machine.Queue()
		m := moment{led: q.led.Load(), held: s.Assigned(nil, r.consumer, r.after)}
		m.last, m.known = s.LastMsgID(r.consumer)
		if !q.box.Post(func() { q.resume(r, m) }) {
			go r.answer(traffic.Holding{}, raftfsm.ErrStopped) // it may take locks
		}
	})
}

// resume answers a request on a worker. If the first message cannot be read, the request waits, and is
// tried again while this member leads. With an error its gateway would start over with all that it sends to the
// queue, for all its consumers. A newer request of a consumer, after its gateway has started over for another reason,
// takes the place of one that waits.
func (q *Member) resume(r *resume, m moment) {
	waiting := q.resumes[r.consumer]
	switch {
	case waiting == r, waiting == nil && !r.waits:
	case r.waits:
		return // a newer one has taken its place, and it is answered
	default:
		waiting.answer(traffic.Holding{}, raftfsm.ErrBusy)
	}
	x, err := q.holds(r, m)
	if !errors.Is(err, errUnread) {
		delete(q.resumes, r.consumer)
		r.answer(x, err)
		return
	}
	if waiting == nil {
		q.h.cfg.Logger.Warn("a message cannot be read; the consumer that holds it waits until it can be, or another member leads the queue",
			"queue", q.uid.String(), "node", r.consumer.Node, "error", err)
	}
	q.resumes[r.consumer], r.waits = r, true
	q.back.add(r.consumer)
	time.AfterFunc(hostRetry, func() { q.ask(r) })
}

// holds returns what a consumer holds. An error is errUnread if it may be asked again. Only workers call it.
func (q *Member) holds(r *resume, m moment) (x traffic.Holding, err error) {
	defer func() {
		if !x.Cut {
			q.back.remove(r.consumer)
		}
	}()
	l := q.led.Load()
	if l == nil || l != m.led {
		return x, q.notLed()
	}
	if !l.unsent.forget(r.consumer, 0) {
		return x, raftfsm.ErrBusy // its session ends
	}
	q.sweepPaused()
	if !m.known {
		return x, fmt.Errorf("%w: the queue has no such consumer", traffic.ErrConsumerGone)
	}
	x.Last = m.last
	unread := q.loadHeld(&x, m.held, r.room)
	if q.led.Load() != l { // reading takes a while
		return traffic.Holding{}, q.notLed()
	}
	if unread != nil {
		return traffic.Holding{}, fmt.Errorf("%w: %w", errUnread, unread)
	}
	return x, nil
}

// sweepPaused ends the pauses of consumers that the queue no longer has.
func (q *Member) sweepPaused() {
	suspects := q.back.suspects()
	if len(suspects) == 0 {
		return
	}
	q.group.Read(func() {
		suspects = slices.DeleteFunc(suspects, func(o quorumq.ConsumerKey) bool {
			_, there := q.machine.Queue().LastMsgID(o)
			return there
		})
	})
	for _, gone := range suspects {
		q.back.remove(gone)
	}
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
// there is any. The gateway gives up the ids that the answer lacks (session.Consumer.Resumed), so only
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
