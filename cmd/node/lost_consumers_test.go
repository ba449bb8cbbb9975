package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
)

// at returns a client that knows one node alone.
func at(ctx context.Context, t *testing.T, n *chaos.Node) *client.Client {
	t.Helper()
	cl, err := client.Dial(ctx, client.Config{Addresses: []string{n.Client}, FixedAddresses: true})
	must(t, err)
	t.Cleanup(func() { go cl.Close() }) // its node may be frozen
	return cl
}

// consumer begins to consume from a node.
func consumer(ctx context.Context, t *testing.T, n *chaos.Node, cfg client.ConsumeConfig) *client.Consumer {
	t.Helper()
	s, err := at(ctx, t, n).Consume(ctx, cfg)
	must(t, err)
	return s
}

// publish stores so many messages.
func publish(ctx context.Context, t *testing.T, cl *client.Client, queue string, n int) {
	t.Helper()
	for i := range n {
		_, err := cl.PublishOne(ctx, client.Message{RoutingKey: queue, Body: fmt.Append(nil, i)})
		must(t, err)
	}
}

// receive takes so many deliveries.
func receive(ctx context.Context, t *testing.T, s *client.Consumer, n int) (all []*client.Delivery) {
	t.Helper()
	for range n {
		d, err := s.Receive(ctx)
		must(t, err)
		all = append(all, d)
	}
	return all
}

// belowSilence is less than the time that consumers of silent nodes have.
const belowSilence = 50 * time.Second

// DC-1: a process that is killed holds nothing any longer, from the moment at which its kernel says so: its
// consumers' messages go to others, as failed, a single active consumer has a successor, and an exclusive one bars
// nobody. One that is silent is assigned nothing new, and what it holds waits for it.
func TestConsumersOfLostNode(t *testing.T) {
	t.Parallel()
	c, err := chaos.NewCluster(chaos.ClusterConfig{Binary: build(t), Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(c.Kill)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	must(t, c.Start(ctx))
	leader, lost, other := c.Nodes[0], c.Nodes[1], c.Nodes[2]
	cl := at(ctx, t, leader)
	for _, q := range []client.Queue{
		{Name: "plain"}, {Name: "single", Arguments: client.Table{"x-single-active-consumer": true}}, {Name: "exclusive"}, {Name: "frozen"},
	} {
		_, err := cl.DeclareQueue(ctx, q)
		must(t, err, cl.TransferLeadership(ctx, client.TransferLeadershipRequest{Queue: q.Name, Node: leader.ID}))
	}

	held := map[string]*client.Consumer{}
	for _, q := range []string{"plain", "single", "exclusive"} {
		publish(ctx, t, cl, q, 3)
		held[q] = consumer(ctx, t, lost, client.ConsumeConfig{Queue: q, Exclusive: q == "exclusive"})
		receive(ctx, t, held[q], 3)
	}
	next := map[string]*client.Consumer{
		"plain": consumer(ctx, t, other, client.ConsumeConfig{Queue: "plain"}), "single": consumer(ctx, t, other, client.ConsumeConfig{Queue: "single"}),
	}
	killed := time.Now()
	must(t, lost.Kill())
	soon, stop := context.WithTimeout(ctx, belowSilence)
	defer stop()
	poll(soon, t, "another consumer is let in", func() (err error) {
		next["exclusive"], err = at(ctx, t, other).Consume(ctx, client.ConsumeConfig{Queue: "exclusive", Exclusive: true})
		return err
	})
	for q, s := range next {
		for i, d := range receive(soon, t, s, 3) {
			if string(d.Body) != fmt.Sprint(i) || d.DeliveryCount != 1 {
				t.Errorf("queue %s: %q, which failed %d times", q, d.Body, d.DeliveryCount)
			}
		}
		t.Logf("queue %s goes on %v after its consumer's node was killed", q, time.Since(killed))
	}

	must(t, lost.Start(), lost.WaitReady(ctx))
	frozen := consumer(ctx, t, lost, client.ConsumeConfig{Queue: "frozen", Prefetch: 100})
	publish(ctx, t, cl, "frozen", 1)
	receive(ctx, t, frozen, 1)
	well := consumer(ctx, t, other, client.ConsumeConfig{Queue: "frozen"})
	paused := time.Now()
	must(t, lost.Pause())
	soon, stop = context.WithTimeout(ctx, belowSilence)
	defer stop()
	const batch = 20
	poll(soon, t, "all that is new goes to the consumer that can be reached", func() error {
		publish(ctx, t, cl, "frozen", batch)
		some, stop := context.WithTimeout(soon, 2*time.Second)
		defer stop()
		for i := range batch {
			d, err := well.Receive(some)
			if err != nil {
				return fmt.Errorf("%d of %d: %w", i, batch, err)
			}
			must(t, d.Ack())
		}
		return nil
	})
	t.Logf("the frozen node gets nothing new %v after it froze", time.Since(paused))
	joins := consumer(ctx, t, leader, client.ConsumeConfig{Queue: "frozen", Priority: 1})
	publish(ctx, t, cl, "frozen", batch)
	receive(soon, t, joins, batch)
	must(t, lost.Resume())
}
