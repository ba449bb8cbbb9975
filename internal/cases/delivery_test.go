package cases

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/quorate/quorate/client"
)

// DEL-8, DEL-10.
func TestT119(t *testing.T) {
	k := begin(t, "a return that did not fail counts acquisitions only, and never ends")
	q := k.queue("q", nil)
	k.publish(q, "m")
	for i := range 30 {
		m := k.get(q, false)
		k.same(fmt.Sprint("counts at ", i), []uint32{m.AcquiredCount, m.DeliveryCount}, []uint32{uint32(i), 0})
		k.same("redelivered", m.Redelivered, i > 0)
		k.settle(m, nackRequeue)
	}
}

// DEL-9.
func TestT120(t *testing.T) {
	k := begin(t, "the default delivery limit lets 21 deliveries fail")
	d := k.queue("d", nil)
	q := k.queue("q", dlx(d))
	k.publish(q, "m")
	s := k.consume(q, 1)
	for range 21 {
		k.must(k.receive(s, 1)[0].Requeue(true))
	}
	m := k.get(d, true)
	k.same("death", death(&m.Received, 0), q+" delivery_limit 1")
	k.nothing(s)
}

// DEL-9.
func TestT121(t *testing.T) {
	k := begin(t, "all messages of a consumer that fails count as failed")
	d := k.queue("d", nil)
	q := k.queue("q", dlx(d, args{"x-delivery-limit": 1}))
	k.publish(q, numbers(1, 5)...)
	for range 2 {
		s := k.consume(q, 10)
		k.receive(s, 5)
		s.Close()
	}
	k.ready(d, 5)
	k.nothing(k.consume(q, 10))
}

// DEL-1.
func TestT122(t *testing.T) {
	k := begin(t, "returned messages come first, in the order of return")
	q := k.queue("q", nil)
	k.publish(q, numbers(1, 5)...)
	taken := []*client.Taken{k.get(q, false), k.get(q, false), k.get(q, false)}
	for _, i := range []int{3, 1, 2} {
		k.settle(taken[i-1], nackRequeue)
	}
	k.same("order", k.bodies(q, 5), []string{"3", "1", "2", "4", "5"})
}

// DEL-1.
func TestT123(t *testing.T) {
	k := begin(t, "messages returned together keep their order")
	q := k.queue("q", nil)
	k.publish(q, numbers(1, 5)...)
	s := k.consume(q, 3)
	got := k.receive(s, 3)
	k.must(s.Cancel(k.ctx, false))
	for _, d := range got {
		k.must(d.Requeue(false))
	}
	k.must(s.Flush(k.ctx))
	k.same("order", k.bodies(q, 5), numbers(1, 5))
}

// DEL-6.
func TestT125(t *testing.T) {
	k := begin(t, "a message is settled once, and only by what was given for it")
	q := k.queue("q", nil)
	k.publish(q, "m")
	m := k.get(q, false)
	k.settle(m, ack)
	if err := k.client.Settle(k.ctx, m.Token, nackRequeue); err == nil {
		k.ready(q, 0) // idempotent: the first decision stands
	}
	k.class("a token that nobody gave", k.client.Settle(k.ctx, "nonsense", ack), client.PreconditionFailed)
}

// DEL-3.
func TestT127(t *testing.T) {
	k := begin(t, "without a prefetch a consumer has 2000 unsettled messages at most")
	q := k.queue("q", nil)
	p, err := k.client.Publisher(client.PublisherConfig{})
	k.must(err)
	for range 3000 {
		k.must(p.PublishAsync(k.ctx, client.Message{RoutingKey: q}, nil))
	}
	k.must(p.Close(k.ctx))
	s := k.consume(q, 0)
	k.receive(s, 2000)
	k.nothing(s)
	k.same("unacked", k.stats(q).MessagesUnacknowledged, 2000)
}

// DEL-4.
func TestT129(t *testing.T) {
	k := begin(t, "auto-ack: what was delivered is gone with the consumer")
	q := k.queue("q", nil)
	k.publish(q, numbers(1, 5)...)
	s := k.consume(q, 0, func(c *client.ConsumeConfig) { c.AutoAck = true })
	k.receive(s, 5)
	s.Close()
	k.nothing(k.consume(q, 10))
}

// PR-1.
func TestT131(t *testing.T) {
	k := begin(t, "32 priorities, higher first; none is 4; above 31 is 31")
	q := k.queue("q", nil)
	for _, p := range []int{-1, 0, 4, 5, 3, 31, 40, 255} {
		_, err := k.try(q, fmt.Sprint(p), func(m *client.Message) {
			if p >= 0 {
				m.Priority = client.Priority(uint8(p))
			}
		})
		k.must(err)
	}
	k.same("order", k.bodies(q, 8), []string{"31", "40", "255", "5", "-1", "4", "3", "0"})
	t.Run("orders", orders)
}

// DEL-2.
func TestT132(t *testing.T) {
	k := begin(t, "the consumer of higher priority is served first")
	q := k.queue("q", nil)
	low := k.consume(q, 3)
	high := k.consume(q, 3, func(c *client.ConsumeConfig) { c.Priority = 10 })
	k.publish(q, numbers(0, 7)...)
	k.same("high", deliveredBodies(k.receive(high, 3)), numbers(0, 2))
	k.same("low", deliveredBodies(k.receive(low, 3)), numbers(3, 5))
	k.same("ready", k.stats(q).MessagesReady, 2)
}

// CO-2.
func TestT137(t *testing.T) {
	k := begin(t, "an exclusive consumer is alone")
	q := k.queue("q", nil)
	k.consume(q, 1, func(c *client.ConsumeConfig) { c.Exclusive = true })
	_, err := k.client.Consume(k.ctx, client.ConsumeConfig{Queue: q})
	k.class("second", err, client.AccessRefused)
}

// CO-3.
func TestT138(t *testing.T) {
	k := begin(t, "a cancelled consumer may still settle what it has")
	q := k.queue("q", nil)
	k.publish(q, "m")
	s := k.consume(q, 1)
	d := k.receive(s, 1)[0]
	k.must(s.Cancel(k.ctx, false))
	k.empty(q)
	k.must(d.Ack())
	k.must(s.Flush(k.ctx))
	s.Close()
	k.empty(q)
	k.same("messages", k.stats(q).Messages, 0)
}

// CN-1.
func TestT139(t *testing.T) {
	k := begin(t, "deleting a queue tells its consumers")
	q := k.queue("q", nil)
	s := k.consume(q, 1)
	_, err := k.client.DeleteQueue(k.ctx, client.DeleteQueueRequest{Name: q})
	k.must(err)
	ctx, cancel := context.WithTimeout(k.ctx, soon)
	defer cancel()
	if _, err := s.Receive(ctx); !errors.Is(err, client.ErrCancelled) {
		k.Errorf("receive: %v, want cancelled", err)
	}
}

// DEL-8.
func TestT154(t *testing.T) {
	k := begin(t, "messages of a consumer that is gone return at once, as failed")
	q := k.queue("q", nil)
	k.publish(q, numbers(1, 3)...)
	other, hangUp := k.another()
	s, err := other.Consume(k.ctx, client.ConsumeConfig{Queue: q})
	k.must(err)
	k.receive(s, 3)
	hangUp() // the connection ends under the consumer
	// At once is together with the consumer: no state of the queue is without it and with what it had.
	var left *client.QueueStats
	k.eventually("the consumer ends", func() error {
		if left = k.figures(q); left == nil || left.Consumers > 0 {
			return errNotYet
		}
		return nil
	})
	k.same("ready when it has ended", left.MessagesReady, 3)
	k.same("unacked when it has ended", left.MessagesUnacknowledged, 0)
	m := k.get(q, false)
	k.same("counts", []uint32{m.DeliveryCount, m.AcquiredCount}, []uint32{1, 1})
}
