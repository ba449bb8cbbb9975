package cases

import (
	"context"
	"testing"

	"github.com/quorate/quorate/client"
)

var single = args{"x-single-active-consumer": true}

// activity waits until a consumer is notified whether it is active.
func (k *kase) activity(what string, s *consumer, want client.Activity) {
	k.Helper()
	ctx, cancel := context.WithTimeout(k.ctx, soon)
	defer cancel()
	if err := s.AwaitActivity(ctx, want); err != nil {
		k.Fatalf("%s: activity %d, want %d: %v", what, s.Activity(), want, err)
	}
}

// DEL-5.
func TestT134(t *testing.T) {
	k := begin(t, "no get from a queue with a single active consumer")
	q := k.queue("q", single)
	_, err := k.client.Get(k.ctx, "", q, true)
	k.class("get", err, client.ResourceLocked)
}

// SAC-1 to SAC-4.
func TestT135(t *testing.T) {
	k := begin(t, "one consumer is active; a higher priority takes over when it has settled")
	q := k.queue("q", single)
	k.publish(q, numbers(1, 4)...)
	a := k.consume(q, 10)
	held := k.receive(a, 4)
	k.activity("a", a, client.Active)
	b := k.consume(q, 10, func(c *client.ConsumeConfig) { c.Priority = 5 })
	k.activity("b", b, client.Waiting)
	k.publish(q, numbers(5, 8)...)
	k.nothing(a)
	k.nothing(b)
	for _, d := range held {
		k.must(d.Ack())
	}
	k.same("b takes over", deliveredBodies(k.receive(b, 4)), numbers(5, 8))
	k.activity("b", b, client.Active)
	k.activity("a", a, client.Waiting)
	b.Close()
	k.same("a goes on", deliveredBodies(k.receive(a, 4)), numbers(5, 8))
	k.activity("a", a, client.Active)
	t.Run("timeouts", timedOutActive)
}
