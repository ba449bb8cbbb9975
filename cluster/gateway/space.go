package gateway

import (
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/quorumq"
)

// The following run with the queue's mutex, roomAgain excepted.

// fits reports whether a delivery that came by itself may be handed over; if so it is in the
// buffer. One that the client has had or that comes out of turn is the tracker's to judge.
func (c *Consumer) fits(d *traffic.Delivery) bool {
	switch {
	case d.MsgID <= c.tracker.Last():
		return true
	case !c.space.short && d.MsgID > c.tracker.Last()+1:
		return true
	case !c.space.short && c.admit(d):
		return true
	}
	c.space.short, c.space.seen = true, max(c.space.seen, d.MsgID)
	return false
}

func (c *Consumer) admit(d *traffic.Delivery) bool {
	return c.cfg.Buffer.admit(d.Size(), c.cfg.AutoAck)
}

// handleEarly keeps deliveries that overtook the answer to the registration, as many as fit.
func (c *Consumer) handleEarly(ds []traffic.Delivery) {
	for i := range ds {
		if c.space.short {
			return
		}
		c.early = append(c.early, ds[i])
		c.earlyBytes += ds[i].Size()
		c.space.short = !c.cfg.AutoAck && c.cfg.Buffer != nil && c.earlyBytes > c.cfg.Buffer.limit
	}
}

// fitting returns the part of an answer for which there is room; it is in the buffer then.
func (c *Consumer) fitting(held []traffic.Delivery, last quorumq.MsgID, cut bool) ([]traffic.Delivery, quorumq.MsgID, bool) {
	for i := range held {
		if held[i].MsgID > c.tracker.Last() && !c.admit(&held[i]) {
			return held[:i], held[i].MsgID - 1, true
		}
	}
	return held, last, cut
}

// resumed decides how to go on after an answer: it was cut, or something came before it that
// is not in it, or nothing is left.
func (c *Consumer) resumed(cut bool) {
	c.askAgain()
	if !cut {
		c.space.short = c.space.seen > c.tracker.Last()
		return
	}
	c.space.short = true
	c.space.waits = c.cfg.Buffer != nil && c.cfg.Buffer.await(&c.space, c.roomAgain)
}

// askAgain lets the next resume go at once.
func (c *Consumer) askAgain() {
	c.cfg.Buffer.forget(&c.space)
	c.space.waits, c.space.share = false, 0
}

// roomToAskFor is how many bytes a resume may be answered with.
func (c *Consumer) roomToAskFor() int64 {
	share := c.space.share
	c.space.share = 0
	room := c.cfg.Buffer.room()
	switch {
	case c.cfg.AutoAck:
		return traffic.NoRoomLimit
	case share > 0:
		return min(share, room)
	}
	return room
}

// roomAgain is the buffer's call: there are so many bytes of room for this consumer.
func (c *Consumer) roomAgain(share int64) {
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	if !c.space.waits || c.ended {
		return
	}
	c.space.waits, c.space.share = false, share
	c.q.inbox.wake = true
	c.q.startLocked()
}
