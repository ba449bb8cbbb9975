package gateway

import (
	"cmp"
	"fmt"
	"slices"
	"time"

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
		fresh = c.accept(fresh, &ds[i])
	}
	c.handLocked(fresh, out)
}

// accept appends a delivery to fresh if it is the client's next one. If others are missing in front of it, it comes again
// with the answer to a resume; but not with auto-ack, because its queue no longer has it. Then it is kept for that answer.
func (c *Consumer) accept(fresh []traffic.Delivery, d *traffic.Delivery) []traffic.Delivery {
	if !c.fits(d) {
		return fresh
	}
	switch c.tracker.Deliver(d.Delivery, c.cfg.AutoAck) {
	case session.New:
		return append(fresh, c.numbered(*d))
	case session.Missing:
		if c.cfg.AutoAck {
			c.keep(d)
		}
	case session.Repeat:
	}
	return fresh
}

// keep keeps a delivery, in order of their ids. The consumer's credit limits how many there are.
func (c *Consumer) keep(d *traffic.Delivery) {
	at, there := slices.BinarySearchFunc(c.kept, d.MsgID, func(k traffic.Delivery, m quorumq.MsgID) int { return cmp.Compare(k.MsgID, m) })
	if !there {
		c.kept = slices.Insert(c.kept, at, *d)
	}
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
	c.pendingSince = time.Time{}
	if c.ended || !c.open {
		return
	}
	pending, before := c.lacks(), c.tracker.Last()
	held, last, cut = c.fitting(held, last, cut)
	fresh := c.catchUp(held, last)
	c.handLocked(fresh, out)
	if upTo := c.tracker.Last(); c.cfg.Skipped != nil && uint64(upTo-before) > uint64(len(fresh)) {
		n, upTo := uint64(upTo-before)-uint64(len(fresh)), upTo-c.base
		out.calls = append(out.calls, func() { c.cfg.Skipped(n, upTo) })
	}
	if c.resumed(cut); pending && !c.lacks() {
		c.handOver(out)
	}
}

// catchUp passes the answer to a resume to the tracker, with what was kept for it in between, and returns what is new to
// the client.
func (c *Consumer) catchUp(held []traffic.Delivery, last quorumq.MsgID) []traffic.Delivery {
	kept := c.kept
	c.kept = nil
	fresh := make([]traffic.Delivery, 0, len(held)+len(kept))
	for i := range kept {
		n := 0
		for n < len(held) && held[n].MsgID < kept[i].MsgID {
			n++
		}
		fresh = c.resumeUpTo(fresh, held[:n], kept[i].MsgID-1)
		fresh = c.accept(fresh, &kept[i])
		held = held[n:]
	}
	return c.resumeUpTo(fresh, held, last)
}

// lose notifies the client that the consumer is gone. It closes the session nevertheless, because the answer may come
// from a former leader, or a registration may still be under way.
func (c *Consumer) lose(err error, out *outbox) {
	c.lost = true
	c.handKept(out)
	c.end(err, out)
	delete(c.q.consumers, c.key.Session)
	c.q.inbox.ops = append(c.q.inbox.ops, unheard(&quorumq.SessionClosed{Session: c.key.SessionKey}))
}

// expire ends a cancelled consumer whose client waits for what is pending while the queue has no leader that sends it. The
// client gets the error in place of the end of its wait, and what it holds returns to the queue.
func (c *Consumer) expire(now time.Time, out *outbox) {
	most := c.q.g.cfg.CommandTimeout
	switch {
	case !c.cancelled || !c.lacks() || !c.behind(): // after a change of leader it is behind, whatever is pending
		c.pendingSince = time.Time{}
	case c.pendingSince.IsZero():
		c.pendingSince = now
	case now.Sub(c.pendingSince) >= most:
		c.lose(fmt.Errorf("queue %s: %w within %s; a majority of its members must be up", c.q.uid, traffic.ErrUndelivered, most), out)
	}
}

// handKept passes on what is kept for the answer to a resume, because none will come.
func (c *Consumer) handKept(out *outbox) {
	if !c.ended && len(c.kept) > 0 {
		c.handLocked(c.catchUp(nil, 0), out)
		c.handOver(out)
	}
}

// resumeUpTo passes a part of an answer to the tracker, up to an id, and appends to fresh what is new to the client.
func (c *Consumer) resumeUpTo(fresh, held []traffic.Delivery, last quorumq.MsgID) []traffic.Delivery {
	ds := make([]quorumq.Delivery, len(held))
	for i := range held {
		ds[i] = held[i].Delivery
	}
	at := 0
	c.tracker.Resumed(ds, last, func(d quorumq.Delivery) {
		for held[at].MsgID != d.MsgID {
			at++
		}
		fresh = append(fresh, c.numbered(held[at]))
		at++
	})
	return fresh
}

// lacks reports whether the queue has assigned messages to the consumer for which there is no room, or in front of which
// others are missing.
func (c *Consumer) lacks() bool { return c.space.short || len(c.kept) > 0 }

// handOver lets what was lacking stay pending until the client has it, which is after q.mu is released: a client that looks
// in between would take what has arrived for everything. Then the client is called once more, because it may have looked.
func (c *Consumer) handOver(out *outbox) {
	c.handing++
	out.calls = append(out.calls, func() {
		c.q.mu.Lock()
		c.handing--
		c.q.mu.Unlock()
		c.cfg.Deliver(nil)
	})
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

// endConsumers ends all consumers. With auto-ack the queue no longer has what is kept for them.
func (q *Queue) endConsumers(err error, out *outbox) {
	for _, c := range q.consumers {
		c.handKept(out)
		c.end(err, out)
	}
}
