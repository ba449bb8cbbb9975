package testcluster_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/clock"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/testcluster"
)

const (
	// clockTTL is that of the messages under load.
	clockTTL = time.Second
	// clockStill is more than what a busy machine adds to a TTL, and far less than any step.
	clockStill = 20 * time.Second
	// clockDeadLetters is how many dead letters are judged after each fault.
	clockDeadLetters = 40
)

// aging publishes messages with a TTL and holds what expires against a true clock: nothing
// comes early by more than the skew limit, and nothing stands still (TTL-6).
type aging struct {
	began       time.Time
	deadLetters atomic.Int64
	early       atomic.Int64 // the earliest that one came, ns before its time
	late        atomic.Int64 // the latest, ns after its time
	trouble     atomic.Pointer[error]
	finished    chan struct{}
}

func startAging(ctx context.Context, t *testing.T, cl *client.Client) *aging {
	t.Helper()
	for _, q := range []client.Queue{
		{Name: "dead"},
		{Name: "aging", Arguments: client.Table{
			"x-message-ttl": clockTTL.Milliseconds(), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead",
			"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
		}},
	} {
		if _, err := cl.DeclareQueue(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	a := &aging{began: time.Now(), finished: make(chan struct{})}
	consumer, err := cl.Consume(ctx, client.ConsumeConfig{Queue: "dead", Prefetch: 100})
	if err != nil {
		t.Fatal(err)
	}
	publisher, err := cl.Publisher(client.PublisherConfig{})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(a.finished)
		defer consumer.Close()
		for {
			d, err := consumer.Receive(ctx)
			if err != nil {
				return
			}
			a.judge(d)
			_ = d.Ack() // it comes again if its stream is lost
		}
	}()
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			<-tick.C
			body := strconv.FormatInt(int64(time.Since(a.began)), 10)
			if _, err := publisher.Publish(ctx, client.Message{RoutingKey: "aging", Body: []byte(body)}); err != nil && ctx.Err() == nil {
				a.trouble.Store(&err)
			}
		}
	}()
	return a
}

// judge is given a dead letter that has just come.
func (a *aging) judge(d *client.Delivery) {
	sent, err := strconv.ParseInt(string(d.Body), 10, 64)
	if err != nil {
		a.trouble.Store(&err)
		return
	}
	off := time.Since(a.began) - time.Duration(sent) - clockTTL
	a.early.Store(max(a.early.Load(), int64(-off)))
	a.late.Store(max(a.late.Load(), int64(off)))
	a.deadLetters.Add(1)
}

// after waits until messages that were published after a fault have expired, and judges all.
func (a *aging) after(t *testing.T, fault string) {
	t.Helper()
	begun := a.deadLetters.Load()
	at := time.Now()
	testcluster.Poll(t, "messages expire: "+fault, func() error {
		if n := a.deadLetters.Load() - begun; n < clockDeadLetters || time.Since(at) < clockTTL {
			return fmt.Errorf("%d have, %v after it", n, time.Since(at))
		}
		return nil
	})
	early, late := time.Duration(a.early.Swap(0)), time.Duration(a.late.Swap(0))
	t.Logf("%s: the earliest %v before its time, the latest %v after it", fault, early, late)
	if early > clock.DefaultLimit {
		t.Errorf("%s: a message expired %v before its time, the limit is %v", fault, early, clock.DefaultLimit)
	}
	if late > clockStill {
		t.Errorf("%s: a message expired %v after its time", fault, late)
	}
	if err := a.trouble.Swap(nil); err != nil {
		t.Errorf("%s: %v", fault, *err)
	}
}

// Whatever happens to the clock of one of three nodes, messages expire at their time, under
// load, and the other nodes see whose clock it is.
func TestClocks(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	c, clocks := testcluster.StartClocks(t, 3)
	cl := openClient(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a := startAging(ctx, t, cl)
	a.after(t, "none")
	leader := leaderOf(t, c, cl, "aging")
	other := (leader + 1) % 3

	clocks[leader].Step(time.Hour)
	a.after(t, "the leader's clock is an hour ahead")
	awaitOffset(t, c, other, leader, time.Hour)
	lead(t, c, cl, other)
	a.after(t, "another one leads")
	clocks[leader].Step(-time.Hour)
	a.after(t, "the clock is right again")
	awaitOffset(t, c, other, leader, 0)

	clocks[leader].Step(-time.Hour)
	lead(t, c, cl, leader)
	a.after(t, "one leads whose clock is an hour behind")
	clocks[leader].Step(time.Hour)
	a.after(t, "the leader's clock is right again")

	clocks[leader].Drift(1.01)
	a.after(t, "the leader's clocks go too fast")
	lead(t, c, cl, other)
	a.after(t, "a leader with right clocks takes over")
	clocks[leader].Drift(1)

	c.Kill(leader)
	clocks[leader].Step(time.Hour)
	clocks[other].Step(-time.Hour)
	a.after(t, "one is down, the leader's clock is an hour behind: two clocks that differ")
	clocks[other].Step(time.Hour)
	c.Restart(leader)
	lead(t, c, cl, leader)
	a.after(t, "a node with a wrong clock is started, and leads")
	clocks[leader].Step(-time.Hour)

	for i := range clocks {
		clocks[i].Step(100 * time.Millisecond)
	}
	a.after(t, "all are set a little")
	cancel()
	<-a.finished
}

// lead moves the leadership of the queue under load.
func lead(t *testing.T, c *testcluster.Cluster, cl *client.Client, to int) {
	t.Helper()
	testcluster.Poll(t, "another node leads", func() error {
		return cl.TransferLeadership(testContext(t), client.TransferLeadershipRequest{Queue: "aging", Node: c.Name(to)})
	})
}

func leaderOf(t *testing.T, c *testcluster.Cluster, cl *client.Client, queue string) (at int) {
	t.Helper()
	testcluster.Poll(t, "a leader", func() error {
		q, err := cl.GetQueue(testContext(t), client.QueueRef{Name: queue})
		if at = c.Index(q.Leader); err == nil && at < 0 {
			err = fmt.Errorf("led by %q", q.Leader)
		}
		return err
	})
	return at
}

// awaitOffset waits until a node sees how far another one's wall clock is off, and the other
// warns of itself.
func awaitOffset(t *testing.T, c *testcluster.Cluster, by, of int, want time.Duration) {
	t.Helper()
	testcluster.Poll(t, "the offset is seen", func() error {
		for _, at := range []int{by, of} {
			f := c.Cluster(at).ClockFigures()
			got := f.Nodes[id.NodeID(c.Name(of))]
			if (got.Offset-want).Abs() > clock.DefaultLimit || len(f.Nodes) != 3 {
				return fmt.Errorf("node %s sees %+v", c.Name(at), f.Nodes)
			}
		}
		if warned := c.Cluster(of).Warning() != ""; warned != (want != 0) {
			return fmt.Errorf("node %s warns %q", c.Name(of), c.Cluster(of).Warning())
		}
		return nil
	})
}

// The time for which all nodes were down counts, by the clocks of most.
func TestClocksAllDown(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	c, clocks := testcluster.StartClocks(t, 3)
	cl := openClient(t, c)
	ctx := testContext(t)
	declareAll(ctx, t, cl)
	for _, key := range []string{"hour", "day"} {
		if _, err := cl.PublishOne(ctx, client.Message{RoutingKey: key, Body: []byte(key)}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range clocks {
		c.Kill(i)
	}
	for i := range clocks {
		clocks[i].Step(2 * time.Hour)
	}
	clocks[1].Step(48 * time.Hour) // it is wrong besides
	c.RestartAll()
	testcluster.Poll(t, "what was to expire in an hour has expired", func() error {
		q, err := cl.GetQueue(testContext(t), client.QueueRef{Name: "dead"})
		if err == nil && q.Figures().MessagesReady != 1 {
			err = fmt.Errorf("%d messages have expired", q.Figures().MessagesReady)
		}
		return err
	})
	for _, row := range []struct {
		queue string
		want  uint64
	}{{"hour", 0}, {"day", 1}, {"dead", 1}} {
		q, err := cl.GetQueue(testContext(t), client.QueueRef{Name: row.queue})
		if err != nil || q.Figures().MessagesReady != row.want {
			t.Errorf("queue %s has %d messages, want %d (%v)", row.queue, q.Figures().MessagesReady, row.want, err)
		}
	}
}

func declareAll(ctx context.Context, t *testing.T, cl *client.Client) {
	t.Helper()
	ttl := func(d time.Duration) client.Table {
		return client.Table{"x-message-ttl": d.Milliseconds(), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
	}
	for _, q := range []client.Queue{
		{Name: "dead"}, {Name: "hour", Arguments: ttl(time.Hour)}, {Name: "day", Arguments: ttl(24 * time.Hour)},
	} {
		if _, err := cl.DeclareQueue(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
}
