package gateway

import (
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/quorumq"
)

// The following run with the queue's mutex, roomAgain excepted.

// fits reports whether a delivery that the queue sent by itself may be passed on; if so, it counts
// in the buffer. For a delivery that the client has had, or that comes out of order, the tracker
// decides.
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

// handleEarly keeps deliveries that overtook the answer to the registration, as many as there is
// room for.
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

// fitting returns the part of an answer for which there is room, and counts it in the buffer.
func (c *Consumer) fitting(held []traffic.Delivery, last quorumq.MsgID, cut bool) ([]traffic.Delivery, quorumq.MsgID, bool) {
	for i := range held {
		if held[i].MsgID > c.tracker.Last() && !c.admit(&held[i]) {
			return held[:i], held[i].MsgID - 1, true
		}
	}
	return held, last, cut
}

// resumed decides how to continue after the answer to a resume. If the answer was cut, the consumer
// asks again as soon as there is room. If it lacks a delivery that was left out before, the
// consumer asks again at once.
func (c *Consumer) resumed(cut bool) {
	c.askAgain()
	if !cut {
		c.space.short = c.space.seen > c.tracker.Last()
		return
	}
	c.space.short = true
	c.space.waits = c.cfg.Buffer != nil && c.cfg.Buffer.await(&c.space, c.roomAgain)
}

// askAgain lets the next resume be sent at once.
func (c *Consumer) askAgain() {
	c.cfg.Buffer.forget(&c.space)
	c.space.waits, c.space.share = false, 0
}

// roomToAskFor returns how many bytes the answer to a resume may have.
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

// roomAgain is called by the buffer when there is room: share is how many bytes this consumer may
// ask for.
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
