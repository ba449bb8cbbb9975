package amqp

import (
	"context"
	"slices"

	"github.com/quorate/quorate/amqp/wire"
)

// retire keeps a cancelled consumer while it has deliveries that are unsettled (CO-3), or that a commit may still
// settle: once the consumer has finished, its queue takes no decision of it.
func (ch *channel) retire(x *consumer) {
	c := ch.c
	c.mu.Lock()
	x.held = 0
	if !x.ended { // one that the server has ended holds nothing
		x.held = ch.unsettled.heldBy(x) + ch.tx.heldBy(x)
	}
	x.endLocked()
	c.mu.Unlock()
	if x.held > 0 {
		ch.retired = append(ch.retired, x)
		return
	}
	x.c.Finish(c.ctx)
	c.s.counters.consumers.Add(-1)
	if x.decided {
		c.mu.Lock()
		x.left = true
		c.mu.Unlock()
		ch.leaving = append(ch.leaving, x)
		ch.forgetStored()
	}
}

// decided counts decisions about deliveries of a consumer, if it is retired.
func (ch *channel) decided(x *consumer, deliveries int) {
	if x.held == 0 {
		return
	}
	if x.held -= deliveries; x.held == 0 {
		ch.settled = true
	}
}

// endSettled ends the retired consumers without unsettled deliveries: a channel may cancel any number of consumers. It
// does not wait: their queues take their decisions first.
func (ch *channel) endSettled() {
	if !ch.settled {
		return
	}
	ch.settled = false
	ch.forgetStored()
	c := ch.c
	ch.retired = slices.DeleteFunc(ch.retired, func(x *consumer) bool {
		if x.held > 0 {
			return false
		}
		ch.leaving = append(ch.leaving, x)
		x.c.CloseThen(func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			x.left = true
			c.changed.Broadcast()
		})
		c.s.counters.consumers.Add(-1)
		return true
	})
}

// haveLeft reports that the queues know of all consumers in leaving. mu is held.
func (ch *channel) haveLeft() bool {
	return !slices.ContainsFunc(ch.leaving, func(x *consumer) bool { return !x.left })
}

// forgetStored removes from leaving those whose decisions are all stored.
func (ch *channel) forgetStored() {
	now, stop := context.WithCancel(ch.c.ctx)
	stop() // it waits for none
	ch.leaving = slices.DeleteFunc(ch.leaving, func(x *consumer) bool {
		ch.c.mu.Lock()
		left := x.left
		ch.c.mu.Unlock()
		return left && x.c.Flush(now) == nil
	})
}

// flush waits until the queue has stored the consumer's decisions. It returns a fault if the server has ended the consumer
// before. If the queue was deleted, nothing is left to settle; but if it dead-letters its messages first, a commit
// must not be answered as if they were settled.
func (x *consumer) flush(id wire.MethodID) *fault {
	err := x.c.Flush(x.ch.c.ctx)
	switch {
	case err == nil:
	case !goneWithQueue(err):
		return faultOf(err, id)
	case id == wire.TxCommitID && outlives(err):
		return refuse(wire.PreconditionFailed, id,
			"partial tx completion: queue '%s' is being deleted, and may have dead-lettered what consumer '%s' has settled", x.queue, x.tag)
	}
	return nil
}

// flushLeaving waits until the queues know of the consumers in leaving, and so have their decisions.
func (ch *channel) flushLeaving(id wire.MethodID) error {
	if err := ch.c.await(ch.c.ctx, ch.haveLeft); err != nil {
		return err
	}
	for _, x := range ch.leaving {
		if f := x.flush(id); f != nil {
			return f
		}
	}
	clear(ch.leaving)
	ch.leaving = ch.leaving[:0]
	return nil
}
