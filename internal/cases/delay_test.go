package cases

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
)

// Waits of queues in which nothing comes due while a case runs.
const (
	longWait   = 400 * time.Second
	longerWait = 1000 * time.Second
	// skew is by how much the time of queues may differ from this machine's (TTL-8).
	skew = 500 * time.Millisecond
)

// waits fails unless a decision about a message makes it wait for so long, as the queue says.
func (k *kase) waits(q string, m *client.Taken, d client.Decision, want time.Duration) {
	k.Helper()
	before := time.Now().Add(want)
	k.settle(m, d)
	s := k.stats(q)
	if at := s.NextDelayedAt; at.Before(before.Add(-skew)) || at.After(time.Now().Add(want+skew)) {
		k.Errorf("it is due %v after the decision, want %v", at.Sub(before)+want, want)
	}
	k.same("figures", []uint64{s.Messages, s.MessagesReady, s.MessagesDelayed, s.MessageBytesDelayed},
		[]uint64{1, 0, 1, uint64(len(m.Body))})
}

// again takes the message that waits.
func (k *kase) again(q string) *client.Taken {
	k.Helper()
	n, err := k.client.RetryDelayed(k.ctx, client.RetryDelayedRequest{Name: q})
	k.must(err)
	k.same("made ready", n, 1)
	return k.get(q, false)
}

func retry(kind string, low, high time.Duration, more ...args) args {
	a := args{"x-delayed-retry-type": kind, "x-delayed-retry-min": low.Milliseconds()}
	if high > 0 {
		a["x-delayed-retry-max"] = high.Milliseconds()
	}
	for _, m := range more {
		for n, v := range m {
			a[n] = v
		}
	}
	return a
}

// DR-1, DR-2, DR-3, DR-6, Q-17.
func TestT143(t *testing.T) {
	k := begin(t, "returned messages wait, longer with each failure; what waits is counted and purged")
	q := k.queue("q", retry("all", longWait, longerWait))
	k.publish(q, "m")
	k.waits(q, k.get(q, false), fail, longWait)
	k.waits(q, k.again(q), nackRequeue, longWait)
	k.waits(q, k.again(q), fail, 2*longWait)
	k.waits(q, k.again(q), fail, longerWait)
	n, err := k.client.PurgeQueue(k.ctx, "", q)
	k.must(err)
	k.same("purged", n, 1)
	k.same("left", k.stats(q).Messages, 0)

	short := k.queue("short", retry("all", 400*time.Millisecond, time.Second))
	k.publish(short, "m")
	m := k.get(short, false)
	for i, want := range []time.Duration{400, 400, 800, 1000} {
		began := time.Now()
		k.settle(m, []client.Decision{fail, nackRequeue, fail, fail}[i])
		m = k.get(short, false)
		k.waited(began, want*time.Millisecond)
	}
	k.same("counts", []uint32{m.DeliveryCount, m.AcquiredCount}, []uint32{3, 4})
	t.Run("explicit", explicitDelays)
}

// waited fails if less time has gone by: times are cut to whole milliseconds.
func (k *kase) waited(began time.Time, want time.Duration) {
	k.Helper()
	if took := time.Since(began); took < want-2*time.Millisecond {
		k.Errorf("it was ready after %v, want %v", took, want)
	}
}

// D-8.
func TestT144(t *testing.T) {
	k := begin(t, "without a maximum every wait is the minimum, and the declare warns")
	q := k.name("q")
	r, err := k.client.DeclareQueue(k.ctx, client.Queue{Name: q, Arguments: retry("failed", longWait, 0)})
	k.must(err)
	if k.client.amqp == nil && len(r.Warnings) != 1 { // AMQP has no place for them
		k.Errorf("warnings %q, want one", r.Warnings)
	}
	k.publish(q, "m")
	m := k.get(q, false)
	for range 4 {
		k.waits(q, m, fail, longWait)
		m = k.again(q)
	}
	k.settle(m, nackRequeue) // did not fail
	k.ready(q, 1)
	t.Run("more", retryShapes)
}

// Q-12, DR-7.
func retryShapes(t *testing.T) {
	t.Run("policy", func(t *testing.T) {
		k := begin(t, "a policy brings delayed retry, and bounds that of arguments")
		q := k.queue("q", args{"x-delayed-retry-min": time.Hour.Milliseconds(), "x-delayed-retry-max": 3 * time.Hour.Milliseconds()})
		k.applied(q, k.policy("p", args{"delayed-retry-type": "all", "delayed-retry-min": longWait.Milliseconds()}))
		k.publish(q, "m")
		k.waits(q, k.get(q, false), fail, longWait)
		k.waits(q, k.again(q), fail, 2*longWait)
	})
	t.Run("shapes", func(t *testing.T) {
		k := begin(t, "waits that double, and as listed")
		q := k.queue("q", retry("all", longWait, 10*longWait, args{"x-delayed-retry-backoff": "exponential"}))
		k.publish(q, "m")
		m := k.get(q, false)
		for _, times := range []time.Duration{1, 2, 4, 8, 10, 10} {
			k.waits(q, m, fail, times*longWait)
			m = k.again(q)
		}
		q = k.queue("list", args{"x-delayed-retry-type": "failed", "x-delayed-retry-backoff": "100s,1000s,2h"})
		k.publish(q, "m")
		m = k.get(q, false)
		for _, seconds := range []time.Duration{100, 1000, 7200, 7200} {
			k.waits(q, m, fail, seconds*time.Second)
			m = k.again(q)
		}
	})
}

// DR-4, DR-6.
func explicitDelays(t *testing.T) {
	k := begin(t, "a return says when; what waits can be made ready before")
	q := k.queue("q", nil)
	k.publish(q, "m")
	k.waits(q, k.get(q, false), client.Decision{Kind: client.Requeue, Delay: longWait}, longWait)
	m := k.again(q)
	at := time.Now().Add(longerWait)
	k.settle(m, client.Decision{Kind: client.Requeue, Failed: true, DeliverAt: at})
	k.same("due", k.stats(q).NextDelayedAt.UnixMilli(), at.UnixMilli())
	m = k.again(q)
	k.settle(m, client.Decision{Kind: client.Requeue, Annotations: args{"x-opt-delivery-time": at.UnixMilli(), "x-why": "busy"}})
	k.same("due", k.stats(q).NextDelayedAt.UnixMilli(), at.UnixMilli())
	m = k.again(q)
	k.same("annotation", m.Annotations["x-why"], "busy")
	k.settle(m, client.Decision{Kind: client.Requeue, DeliverAt: time.Now().Add(-time.Hour)}) // says nothing
	k.ready(q, 1)

	s := k.consume(q, 10)
	k.publish(q, "n", "o")
	for _, d := range k.receive(s, 3) {
		k.must(d.RequeueAfter(false, longWait))
	}
	k.must(s.Flush(k.ctx))
	n, err := k.client.RetryDelayed(k.ctx, client.RetryDelayedRequest{Name: q, Limit: 2})
	k.must(err)
	k.same("made ready", n, 2)
	k.same("first", deliveredBodies(k.receive(s, 2)), []string{"m", "n"})
	k.same("left", k.stats(q).MessagesDelayed, 1)
}

// DLY-1, VH-3.
func TestT148(t *testing.T) {
	k := alone(t, "a delayed publish outlives its leader, and comes once and not before its time")
	v := k.vhost(client.VHost{DelayedPublish: true})
	_, err := k.client.DeclareQueue(k.ctx, client.Queue{VHost: v, Name: "q", Arguments: args{"x-message-ttl": time.Hour.Milliseconds()}})
	k.must(err)
	began := time.Now()
	_, err = k.client.PublishOne(k.ctx, client.Message{
		VHost: v, RoutingKey: "q", Body: []byte("later"), Properties: client.Properties{Headers: args{"x-delay": 1500}},
	})
	k.must(err)
	q, err := k.client.GetQueue(k.ctx, client.QueueRef{VHost: v, Name: "q"})
	k.must(err)
	for _, n := range k.cluster.Nodes {
		if n.ID == q.Leader {
			k.must(n.Kill())
		}
	}
	var m *client.Taken
	for end := time.Now().Add(startTimeout); m == nil && time.Now().Before(end); time.Sleep(poll) {
		ctx, cancel := context.WithTimeout(k.ctx, soon)
		if m, err = k.client.Get(ctx, v, "q", true); err != nil {
			m = nil
		}
		cancel()
	}
	if m == nil {
		k.Fatalf("nothing is ready: %v", err)
	}
	k.waited(began, 1500*time.Millisecond)
	k.same("message", fmt.Sprintf("%s %t %d", m.Body, m.Redelivered, m.AcquiredCount), "later false 0")
	k.must(k.cluster.Start(k.ctx))
	k.eventually("nothing is left", func() error {
		q, err := k.client.GetQueue(k.ctx, client.QueueRef{VHost: v, Name: "q"})
		if err == nil && (q.Stats == nil || q.Stats.Messages > 0) {
			err = errNotYet
		}
		return err
	})
	t.Run("more", delayedPublishes)
}

// DLY-1, LEN-4.
func delayedPublishes(t *testing.T) {
	k := begin(t, "delayed publishes are confirmed at once, counted, and ready in the order of their times")
	q := k.queue("q", args{"x-max-length": 3, "x-overflow": "reject-publish"})
	later := func(d time.Duration) func(*client.Message) {
		return func(m *client.Message) { m.Delay = d }
	}
	at := time.Now().Add(longWait)
	for body, change := range map[string]func(*client.Message){
		"second": func(m *client.Message) { m.DeliverAt = at },
		"third":  later(longerWait),
		"first":  later(time.Second),
	} {
		_, err := k.try(q, body, change)
		k.must(err)
	}
	if _, err := k.try(q, "too many", later(time.Hour)); err == nil {
		k.Error("a fourth message is taken")
	}
	_, err := k.try(q, "beyond", later(20*365*24*time.Hour))
	k.class("delay of twenty years", err, client.PreconditionFailed)
	m := k.get(q, true)
	k.same("first", string(m.Body), "first")
	k.same("redelivered", m.Redelivered, false)
	k.same("due", k.stats(q).NextDelayedAt.UnixMilli(), at.UnixMilli())
	n, err := k.client.RetryDelayed(k.ctx, client.RetryDelayedRequest{Name: q})
	k.must(err)
	k.same("made ready", n, 2)
	k.same("then", k.bodies(q, 2), []string{"second", "third"})

	// The header x-delay says nothing where the vhost does not ask for it.
	_, err = k.try(q, "now", headers(args{"x-delay": longWait.Milliseconds()}))
	k.must(err)
	k.ready(q, 1)
	v := k.vhost(client.VHost{DelayedPublish: true})
	_, err = k.client.DeclareQueue(k.ctx, client.Queue{VHost: v, Name: "q"})
	k.must(err)
	for _, bad := range []any{"soon", 1.5, (11 * 365 * 24 * time.Hour).Milliseconds()} {
		_, err := k.client.PublishOne(k.ctx, client.Message{VHost: v, RoutingKey: "q", Properties: client.Properties{Headers: args{"x-delay": bad}}})
		k.class(fmt.Sprint("x-delay ", bad), err, client.PreconditionFailed)
	}
}

// PR-3, LEN-3, LEN-8, and the other orders of a queue.
func orders(t *testing.T) {
	t.Run("fair", func(t *testing.T) {
		k := begin(t, "priorities as shares")
		q := k.queue("q", args{"x-priority-mode": "fair"})
		for i := range 6 {
			_, err := k.try(q, fmt.Sprint("high", i), func(m *client.Message) { m.Priority = client.Priority(2) })
			k.must(err)
			_, err = k.try(q, fmt.Sprint("low", i), func(m *client.Message) { m.Priority = client.Priority(0) })
			k.must(err)
		}
		k.same("order", k.bodies(q, 8), []string{"high0", "high1", "high2", "low0", "high3", "high4", "high5", "low1"})
	})
	t.Run("return to place", func(t *testing.T) {
		k := begin(t, "returned messages go back to where they stood")
		q := k.queue("q", args{"x-return-position": "original", "x-single-active-consumer": true})
		k.publish(q, numbers(1, 4)...)
		s := k.consume(q, 3)
		held := k.receive(s, 3)
		k.must(held[2].Requeue(false))
		k.same("again", deliveredBodies(k.receive(s, 1)), []string{"3"})
		k.must(held[0].Requeue(true))
		k.same("again", deliveredBodies(k.receive(s, 1)), []string{"1"})
	})
	t.Run("victim", func(t *testing.T) {
		k := begin(t, "drop-head takes the lowest priority first")
		q := k.queue("q", args{"x-max-length": 2, "x-overflow-victim": "lowest-priority"})
		for _, p := range []uint8{5, 9, 1, 9} {
			_, err := k.try(q, fmt.Sprint(p), func(m *client.Message) { m.Priority = client.Priority(p) })
			k.must(err)
		}
		k.same("kept", k.bodies(q, 2), []string{"9", "9"})
	})
	t.Run("total", func(t *testing.T) {
		k := begin(t, "a limit on the total counts what consumers hold")
		q := k.queue("q", args{"x-max-length-total": 2, "x-overflow": "reject-publish"})
		k.publish(q, "a", "b")
		m := k.get(q, false)
		r, err := k.try(q, "c")
		if err == nil {
			k.Errorf("a third message is taken: %+v", r)
		}
		k.settle(m, ack)
		k.publish(q, "c")
		k.applied(q, k.policy("p", args{"max-length-total": 1}))
		r, err = k.try(q, "d")
		if err == nil {
			k.Errorf("the policy does not hold: %+v", r)
		}
	})
	t.Run("if empty", func(t *testing.T) {
		k := begin(t, "a queue with delayed messages is not empty")
		q := k.queue("q", nil)
		_, err := k.try(q, "m", func(m *client.Message) { m.Delay = longWait })
		k.must(err)
		_, err = k.client.DeleteQueue(k.ctx, client.DeleteQueueRequest{Name: q, IfEmpty: true})
		k.class("delete", err, client.PreconditionFailed)
		gone, err := k.client.DeleteQueue(k.ctx, client.DeleteQueueRequest{Name: q})
		k.must(err)
		k.same("delayed", gone.Delayed, 1)
	})
}
