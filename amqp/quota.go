package amqp

import (
	"time"

	"github.com/quorate/quorate/broker"
)

// awaitQuotas is where a publish waits for quotas (VH-14): the connection is not read meanwhile. At a
// rate that is all; what holds too much takes longer, and clients are told.
func (c *conn) awaitQuotas(by *hand) error {
	for {
		h, held := by.sender.Held(c.vhost)
		if !held || c.isEnding() {
			return nil
		}
		ended := h.Waits()
		err := c.awaitQuota(by, &h)
		if ended(); err != nil {
			return err
		}
	}
}

func (c *conn) awaitQuota(by *hand, h *broker.Hold) error {
	if h.Stored {
		c.mu.Lock()
		c.blocking.stored = *h
		c.mu.Unlock()
		c.block(h.Error().Error(), "")
		return c.holdBack(by, func() bool { return !c.held.Load() || c.endingLocked() })
	}
	c.flow.Add(1)
	defer c.flow.Add(-1)
	until := time.Now().Add(h.For)
	timer := time.AfterFunc(h.For, c.lookAgain)
	defer timer.Stop()
	return c.holdBack(by, func() bool { return !time.Now().Before(until) || c.endingLocked() })
}

// lookAgain has those look who wait.
func (c *conn) lookAgain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed.Broadcast()
}
