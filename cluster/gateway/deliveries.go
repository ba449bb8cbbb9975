package gateway

import (
	"fmt"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/quorumq/session"
)

// The following run on the queue's goroutine with its mutex.

// handleDeliveries passes new deliveries to the clients, in batches for one consumer each. It reports whether a
// consumer has to ask the queue for what it missed.
func (q *Queue) handleDeliveries(ds []traffic.Delivery, out *outbox) (behind bool) {
	for i := 0; i < len(ds); {
		c := q.consumers[ds[i].Consumer.Session]
		j := i + 1
		for j < len(ds) && ds[j].Consumer == ds[i].Consumer {
			j++
		}
		if c != nil && c.key == ds[i].Consumer && !c.ended {
			c.handleDeliveries(ds[i:j], out)
			behind = behind || c.behind()
		}
		i = j
	}
	return behind
}

// handleDeliveries drops deliveries that the consumer has seen already. Deliveries that arrive before the answer to the
// checkout are kept for later.
func (c *Consumer) handleDeliveries(ds []traffic.Delivery, out *outbox) {
	if !c.open {
		c.handleEarly(ds)
		return
	}
	fresh := ds[:0:len(ds)] // reuses the memory of those that were processed
	for i := range ds {
		if !c.fits(&ds[i]) {
			continue
		}
		if c.tracker.Deliver(ds[i].Delivery, c.cfg.AutoAck) == session.New {
			fresh = append(fresh, c.numbered(ds[i]))
		}
	}
	c.handLocked(fresh, out)
}

// handLocked passes deliveries to the client after q.mu is released, because the client may call the queue.
func (c *Consumer) handLocked(fresh []traffic.Delivery, out *outbox) {
	if len(fresh) > 0 {
		out.calls = append(out.calls, func() { c.cfg.Deliver(fresh) })
	}
}

// handleHeld processes the answer to a resume; cut says that the queue has more.
func (c *Consumer) handleHeld(held []traffic.Delivery, last quorumq.MsgID, cut bool, out *outbox) {
	c.resuming = false
	if c.ended || !c.open {
		return
	}
	held, last, cut = c.fitting(held, last, cut)
	ds := make([]quorumq.Delivery, len(held))
	for i := range held {
		ds[i] = held[i].Delivery
	}
	at, before := 0, c.tracker.Last()
	fresh := held[:0] // reuses the memory of those that were processed
	c.tracker.Resumed(ds, last, func(d quorumq.Delivery) {
		for held[at].MsgID != d.MsgID {
			at++
		}
		fresh = append(fresh, c.numbered(held[at]))
		at++
	})
	c.handLocked(fresh, out)
	if upTo := c.tracker.Last(); c.cfg.Skipped != nil && uint64(upTo-before) > uint64(len(fresh)) {
		n, upTo := uint64(upTo-before)-uint64(len(fresh)), upTo-c.base
		out.calls = append(out.calls, func() { c.cfg.Skipped(n, upTo) })
	}
	owed := c.space.short
	if c.resumed(cut); owed && !c.space.short && len(fresh) == 0 {
		out.calls = append(out.calls, func() { c.cfg.Deliver(nil) })
	}
}

// handleNotice processes a notice. It ignores notices for consumers that no longer exist here.
func (q *Queue) handleNotice(n quorumq.Notice, out *outbox) {
	switch n.Kind {
	case quorumq.NoticeLeader:
		// The new leader has reported itself, or the local member has; led and answers of the old leader begin the new
		// attempt. Here the consumers only ask for what was handed out meanwhile.
		for _, c := range q.consumers {
			if c.key.SessionKey == n.Consumer.SessionKey && c.open {
				c.askAgain()
				c.tracker.Rewind()
			}
		}
	case quorumq.NoticeCancelled:
		if c := q.consumers[n.Consumer.Session]; c != nil && c.key == n.Consumer {
			c.lose(fmt.Errorf("queue %s: %w: cancelled by the queue", q.uid, traffic.ErrConsumerGone), out)
		}
	case quorumq.NoticeRevoked:
		if c := q.consumers[n.Consumer.Session]; c != nil && c.key == n.Consumer {
			c.revoked(n.Messages, out)
		}
	case quorumq.NoticeActive, quorumq.NoticeWaiting:
		if c := q.consumers[n.Consumer.Session]; c != nil && c.key == n.Consumer && !c.ended && c.cfg.Active != nil {
			active := n.Kind == quorumq.NoticeActive
			out.calls = append(out.calls, func() { c.cfg.Active(active) })
		}
	}
}

// revoked notifies the client of deliveries that it held for too long. The client may still decide about them, and the
// queue delivers nothing more before it does.
func (c *Consumer) revoked(r quorumq.MsgIDRange, out *outbox) {
	if !c.open || c.ended || r.First <= c.base || c.cfg.Revoked == nil {
		return
	}
	r.First, r.Last = r.First-c.base, r.Last-c.base
	out.calls = append(out.calls, func() { c.cfg.Revoked(r) })
}
