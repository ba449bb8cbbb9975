package gateway

import (
	"fmt"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/quorumq/session"
)

// The following run on the queue's goroutine with its mutex.

// takeDeliveries hands what is new to the clients, in batches of one consumer.
func (q *Queue) takeDeliveries(ds []traffic.Delivery, t *turn) {
	for i := 0; i < len(ds); {
		c := q.consumers[ds[i].Consumer.Session]
		j := i + 1
		for j < len(ds) && ds[j].Consumer == ds[i].Consumer {
			j++
		}
		if c != nil && c.key == ds[i].Consumer && !c.ended {
			c.takeDeliveries(ds[i:j], t)
		}
		i = j
	}
}

func (c *Consumer) takeDeliveries(ds []traffic.Delivery, t *turn) {
	if !c.open {
		c.takeEarly(ds)
		return
	}
	fresh := make([]Delivery, 0, len(ds))
	for i := range ds {
		if !c.fits(&ds[i]) {
			continue
		}
		if c.book.Deliver(ds[i].Delivery, c.cfg.AutoAck) == session.New {
			fresh = append(fresh, c.delivery(&ds[i]))
		}
	}
	c.handLocked(fresh, t)
}

func (c *Consumer) handLocked(fresh []Delivery, t *turn) {
	if len(fresh) > 0 {
		t.calls = append(t.calls, func() { c.cfg.Deliver(fresh) })
	}
}

// takeHeld takes the answer to a resume; cut tells that there is more than was asked for.
func (c *Consumer) takeHeld(held []traffic.Delivery, last quorumq.MsgID, cut bool, t *turn) {
	c.resuming = false
	if c.ended || !c.open {
		return
	}
	held, last, cut = c.fitting(held, last, cut)
	ds := make([]quorumq.Delivery, len(held))
	for i := range held {
		ds[i] = held[i].Delivery
	}
	at := 0
	var fresh []Delivery
	c.book.Resumed(ds, last, func(d quorumq.Delivery) {
		for held[at].MsgID != d.MsgID {
			at++
		}
		fresh = append(fresh, c.delivery(&held[at]))
	})
	c.handLocked(fresh, t)
	owed := c.space.short
	if c.resumed(cut); owed && !c.space.short && len(fresh) == 0 {
		t.calls = append(t.calls, func() { c.cfg.Deliver(nil) })
	}
}

func (q *Queue) takeNotice(n quorumq.Notice, t *turn) {
	switch n.Kind {
	case quorumq.NoticeLeader:
		// The leader told so itself, or its member here did: led and the answers of the
		// old leader have begun a new attempt. What it handed out meanwhile is asked for.
		for _, c := range q.consumers {
			if c.key.SessionKey == n.Consumer.SessionKey && c.open {
				c.askAgain()
				c.book.Rewind()
			}
		}
	case quorumq.NoticeCancelled:
		if c := q.consumers[n.Consumer.Session]; c != nil && c.key == n.Consumer {
			c.lose(fmt.Errorf("queue %s: %w: cancelled by the queue", q.uid, traffic.ErrConsumerGone), t)
		}
	case quorumq.NoticeRevoked:
		if c := q.consumers[n.Consumer.Session]; c != nil && c.key == n.Consumer {
			c.revoked(n.Messages, t)
		}
	case quorumq.NoticeActive, quorumq.NoticeWaiting:
		if c := q.consumers[n.Consumer.Session]; c != nil && c.key == n.Consumer && !c.ended && c.cfg.Active != nil {
			active := n.Kind == quorumq.NoticeActive
			t.calls = append(t.calls, func() { c.cfg.Active(active) })
		}
	}
}

// revoked tells the client what it had for too long. It may still decide about it, which the
// queue wants to hear before it delivers more.
func (c *Consumer) revoked(r quorumq.MsgIDRange, t *turn) {
	if !c.open || c.ended || r.First <= c.base || c.cfg.Revoked == nil {
		return
	}
	r.First, r.Last = r.First-c.base, r.Last-c.base
	t.calls = append(t.calls, func() { c.cfg.Revoked(r) })
}
