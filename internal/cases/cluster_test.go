package cases

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos/check"
	"github.com/quorate/quorate/chaos/fault"
	"github.com/quorate/quorate/chaos/run"
	"github.com/quorate/quorate/chaos/target/local"
	"github.com/quorate/quorate/chaos/workload"
	"github.com/quorate/quorate/client"
)

// RE-2. It comes first: kills in other cases move leaders.
func TestT156(t *testing.T) {
	k := alone(t, "leaders of balanced queues are spread over the nodes")
	if k.rerun {
		t.Skip("what earlier runs have left is led somewhere, and counts for the balance")
	}
	leaders := map[string]int{}
	for i := range 15 {
		q, err := k.client.GetQueue(k.ctx, client.QueueRef{Name: k.queue(fmt.Sprint("q", i), args{"x-queue-leader-locator": "balanced"})})
		k.must(err)
		leaders[q.Leader]++
	}
	for node, n := range leaders {
		if n < 3 || n > 7 {
			k.Errorf("node %s leads %d of 15", node, n)
		}
	}
	k.same("nodes that lead", len(leaders), 3)
}

// PUB-6, PUB-7.
func TestT149(t *testing.T) {
	k := alone(t, "kill -9 of the leader, twice, loses, doubles and reorders nothing")
	if _, err := k.client.ClusterStatus(k.ctx); err != nil {
		k.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*caseTimeout)
	defer cancel()
	events, err := run.Run(ctx, run.Config{
		Cluster: &local.Cluster{Cluster: k.cluster}, Workloads: []workload.Kind{workload.Publish()},
		Length: 10 * time.Second, Rate: 3000, Prefix: k.name("q"), Log: k.Logf,
		Steps: []fault.Step{
			{At: 2 * time.Second, Kind: "kill", Role: fault.Leader, For: time.Second},
			{At: 6 * time.Second, Kind: "kill", Role: fault.Leader, For: time.Second},
		},
	})
	k.must(err)
	if r := check.Check(events); r.Verdict != check.Valid {
		k.Error(r.String())
	}
}

// RE-5, PUB-5.
func TestT150(t *testing.T) {
	k := alone(t, "without a majority calls fail in time and nothing is half done")
	q := k.queue("q", nil)
	other := k.queue("other", nil)
	k.publish(q, "before")
	left := k.cluster.Nodes[0]
	c, err := client.Dial(k.ctx, client.Config{Addresses: []string{left.Client}, FixedAddresses: true})
	k.must(err)
	defer c.Close()
	for _, n := range k.cluster.Nodes[1:] {
		k.must(n.Kill())
	}
	// Calls whose outcome is unknown may take effect later: not on the queue that is
	// looked at.
	calls := map[string]func(context.Context) error{
		"get": func(ctx context.Context) error {
			_, err := c.Get(ctx, client.GetRequest{Queue: other, AutoAck: true})
			return err
		},
		"declare": func(ctx context.Context) error {
			_, err := c.DeclareQueue(ctx, client.Queue{Name: k.name("new")})
			return err
		},
		"consume": func(ctx context.Context) error {
			_, err := c.Consume(ctx, client.ConsumeConfig{Queue: other})
			return err
		},
	}
	var wg sync.WaitGroup
	for what, call := range calls {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(k.ctx, 7*time.Second)
			defer cancel()
			if err := call(ctx); client.ClassOf(err) != client.Unavailable && !errors.Is(err, context.DeadlineExceeded) {
				k.Errorf("%s: %v, want unavailable", what, err)
			}
		})
	}
	wg.Wait()
	p, err := c.Publisher(client.PublisherConfig{})
	k.must(err)
	answer := make(chan error, 1)
	k.must(p.PublishAsync(k.ctx, client.Message{RoutingKey: q, Body: []byte("held")}, func(_ client.Result, err error) { answer <- err }))
	k.must(k.cluster.Start(k.ctx))
	if err := <-answer; err != nil {
		k.Errorf("publish after the recovery: %v", err)
	}
	k.must(p.Close(k.ctx))
	k.same("messages", k.bodies(q, 2), []string{"before", "held"})
}

// RE-7.
func TestT152(t *testing.T) {
	k := alone(t, "kill -9 of all nodes keeps messages, delayed ones, backlog and counts")
	q := k.queue("q", dlx(k.name("nowhere"), alo()))
	k.publish(q, numbers(1, 100)...)
	for range 2 {
		k.settle(k.get(q, false), reject) // to the backlog: its target is missing
	}
	k.settle(k.get(q, false), fail)
	k.get(q, false) // unacked
	k.settle(k.get(q, false), client.Decision{Kind: client.Requeue, Delay: time.Hour})
	k.cluster.Kill()
	k.must(k.cluster.Start(k.ctx))
	k.eventually("all is there", func() error {
		state, err := k.client.GetQueue(k.ctx, client.QueueRef{Name: q})
		if err != nil {
			return err
		}
		if s := state.Stats; s.MessagesDLX != 2 || s.MessagesReady+s.MessagesUnacknowledged != 97 || s.MessagesDelayed != 1 {
			return fmt.Errorf("ready %d, unacked %d, delayed %d, backlog %d",
				s.MessagesReady, s.MessagesUnacknowledged, s.MessagesDelayed, s.MessagesDLX)
		}
		return nil
	})
	n, err := k.client.RetryDelayed(k.ctx, client.RetryDelayedRequest{Name: q})
	k.must(err)
	k.same("made ready", n, 1)
	k.ready(q, 98)
	m := k.get(q, true)
	k.same("first", fmt.Sprint(string(m.Body), " acquired ", m.AcquiredCount), "3 acquired 2")
	k.queue("nowhere", nil)
	k.same("dead letters", k.bodies(k.name("nowhere"), 2), []string{"1", "2"})
}

// EX-14.
func TestT023(t *testing.T) {
	k := alone(t, "a key always takes the same queue of x-modulus-hash, also after kill -9 of all nodes")
	x := k.exchange("x", "x-modulus-hash", client.Exchange{})
	var queues []string
	for i := range 3 {
		q := k.queue(fmt.Sprint("q", i), nil)
		k.bind(x, q, "")
		queues = append(queues, q)
	}
	// took publishes to each of 30 keys and returns which queue took which.
	took := func(times int) map[string]string {
		for range times {
			for key := range 30 {
				_, err := k.try(fmt.Sprint("key", key), fmt.Sprint("key", key), via(x))
				k.must(err)
			}
		}
		out, n := map[string]string{}, 0
		for _, q := range queues {
			for {
				m, err := k.client.Get(k.ctx, "", q, true)
				k.must(err)
				if m == nil {
					break
				}
				if before, known := out[string(m.Body)]; known && before != q {
					k.Errorf("%s is in %s and in %s", m.Body, before, q)
				}
				out[string(m.Body)], n = q, n+1
			}
		}
		k.same("messages", n, 30*times)
		return out
	}
	before := took(10)
	k.cluster.Kill()
	k.must(k.cluster.Start(k.ctx))
	k.eventually("the queues answer", func() error {
		for _, q := range queues {
			if _, err := k.client.DeclareQueue(k.ctx, client.Queue{Name: q, Passive: true}); err != nil {
				return err
			}
		}
		return nil
	})
	k.same("after the restart", took(1), before)
}
