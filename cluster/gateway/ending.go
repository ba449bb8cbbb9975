package gateway

import (
	"errors"
	"fmt"
	"slices"

	"github.com/quorate/quorate/cluster/traffic"
)

// drainDeletes ends the consumers, after what has arrived for them. Their earlier decisions are sent first. The queue itself
// takes back what they hold.
func (q *Queue) drainDeletes() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.leaves = fmt.Errorf("queue %s: %w: its messages are dead-lettered", q.uid, traffic.ErrDrainDeleting)
	if len(q.consumers) > 0 && q.ended == nil {
		q.inbox.leaves = true
		q.startLocked()
	}
}

// partLocked ends the consumers of a queue that has ended. Consumers with auto-ack get what has arrived, because the
// queue no longer has it. If a goroutine works on the queue, it calls them, so that the end comes after the
// deliveries that it is making; otherwise the caller does when it has released mu.
func (q *Queue) partLocked(in *inbox, out *outbox) {
	var parting outbox
	why := q.ended
	if in.leaves {
		why = q.leaves
	}
	q.handleDeliveries(slices.DeleteFunc(in.deliveries, func(d traffic.Delivery) bool {
		c := q.consumers[d.Consumer.Session]
		return c == nil || !c.cfg.AutoAck
	}), &parting)
	q.endConsumers(why, &parting)
	clear(q.consumers)
	if q.running {
		q.inbox.parting = parting.calls
	} else {
		out.calls = append(out.calls, parting.calls...)
	}
}

// end answers everything with err, for good. When the node stops, what may have reached the queue's
// log has an unknown outcome instead (G2). If the queue was drain-deleted, unanswered publishes may
// have been dead-lettered or may have come too late for that; their outcome is unknown, too.
func (q *Queue) end(err error) {
	var out outbox
	q.mu.Lock()
	if q.ended != nil {
		q.mu.Unlock()
		return
	}
	q.ended = err
	unanswered := func(possible bool) error {
		if possible && errors.Is(err, traffic.ErrClosed) {
			return fmt.Errorf("queue %s: %w: this node is stopping", q.uid, traffic.ErrUnknownOutcome)
		}
		return err
	}
	in := q.emptyLocked()
	q.publisher.Abandon(func(token publishToken, possible bool) {
		why := unanswered(possible)
		if q.leaves != nil {
			why = fmt.Errorf("queue %s: %w: it was deleted meanwhile", q.uid, traffic.ErrUnknownOutcome)
		}
		q.confirmLocked(token, why, &out)
	})
	q.ops.add(in.ops)
	q.ops.end(unanswered, &out)
	q.partLocked(&in, &out)
	q.alarm.stop()
	close(q.room)
	q.mu.Unlock()
	out.flush()
}
