package testcluster_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// roomy is limits.incoming_bytes of these tests: a user has a half of it, a connection a quarter.
const roomy = 4 << 20

// roomCluster is a node with little room for large messages, and a queue for those of the users.
func roomCluster(t *testing.T, users ...string) (*testcluster.Cluster, *client.Client) {
	t.Helper()
	c := testcluster.StartIncoming(t, 1, roomy)
	cl := withQuotas(t, c, users, nil)
	if _, err := cl.DeclareQueue(testContext(t), client.Queue{Name: "q"}); err != nil {
		t.Fatal(err)
	}
	return c, cl
}

// holds opens a stream with a message of so many bytes, and returns what waits for its end.
func holds(t *testing.T, p peer, bytes int) (ended func() error) {
	t.Helper()
	s, err := p.Publish(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	m := &brokerv1.Message{RoutingKey: "q", Body: make([]byte, bytes)}
	if err := s.Send(&brokerv1.PublishRequest{Sequence: 1, Message: m}); err != nil {
		t.Fatal(err)
	}
	return func() error {
		for {
			if _, err := s.Recv(); err != nil {
				return err
			}
		}
	}
}

// awaitHeld waits until so many publishers of a node wait for a quota.
func awaitHeld(t *testing.T, c *testcluster.Cluster, want int64) {
	t.Helper()
	testcluster.Poll(t, fmt.Sprint(want, " publishers are held back"), func() error {
		if _, n := c.Broker(0).Limits.Counts(); n != want {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
}

// VH-14: a publisher whose large message is held back by its user's rate, and takes room that others lack, continues
// later: it is confirmed all, and nothing is stored twice.
func TestPublisherGivesWay(t *testing.T) {
	t.Parallel()
	c, cl := roomCluster(t, "slow", "held", "large")
	ctx := testContext(t)
	const size = 1_000_000
	rate, none := int64(size/8), int64(0)
	for user, l := range map[string]client.UserLimits{"slow": {MaxByteRate: &rate}, "held": {MaxMessageRate: &none}} {
		if err := cl.SetUserLimits(ctx, client.SetUserLimitsRequest{Name: user, Limits: l}); err != nil {
			t.Fatal(err)
		}
	}
	slow := openClient(t, c, func(cfg *client.Config) { cfg.Username, cfg.Password = "slow", "secret" })
	p, err := slow.Publisher(client.PublisherConfig{})
	if err != nil {
		t.Fatal(err)
	}
	const messages = 2
	var confirmed sync.WaitGroup
	for range messages {
		confirmed.Add(1)
		if err := p.PublishAsync(ctx, client.Message{RoutingKey: "q", Body: make([]byte, size)}, func(_ client.Result, err error) {
			if err != nil {
				t.Error(err)
			}
			confirmed.Done()
		}); err != nil {
			t.Fatal(err)
		}
	}
	awaitHeld(t, c, 1)
	var ends []func() error
	for range 2 {
		held, _ := asUser(t, c.Addrs()[0], "held")
		ends = append(ends, holds(t, held, size))
	}
	awaitHeld(t, c, 3)
	large, _ := asUser(t, c.Addrs()[0], "large")
	if _, err := large.PublishOne(ctx, &brokerv1.PublishOneRequest{Message: &brokerv1.Message{RoutingKey: "q", Body: make([]byte, roomy-size)}}); err != nil {
		t.Fatalf("who is not held back: %v", err)
	}
	for _, end := range ends {
		refused(t, end(), codes.ResourceExhausted, "RESOURCE_EXHAUSTED", `user "held": max-message-rate = 0`)
	}
	confirmed.Wait()
	if err := p.Close(ctx); err != nil {
		t.Errorf("closing the publisher: %v", err)
	}
	if p.Resent() == 0 {
		t.Error("the publisher did not give way")
	}
	if q, err := cl.GetQueue(ctx, client.QueueRef{Name: "q"}); err != nil || q.Stats == nil || q.Stats.Messages != messages+1 {
		t.Errorf("stored: %+v, %v; want %d messages", q.Stats, err, messages+1)
	}
}

// settles settles a message with one output of so many bytes, within half a minute.
func settles(t *testing.T, p peer, bytes int) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(testContext(t), 30*time.Second)
	defer cancel()
	got, err := p.Get(ctx, &brokerv1.GetRequest{Queue: "q"})
	if err != nil || got.GetDelivery() == nil {
		t.Fatalf("got %v, %v", got, err)
	}
	_, err = p.tx.SettleAndPublish(ctx, &brokerv1.SettleAndPublishRequest{
		SettleToken: got.GetSettleToken(), Outputs: []*brokerv1.Message{{RoutingKey: "q", Body: make([]byte, bytes)}},
	})
	return err
}

// VH-14, G-22: what is settled makes room, so it does not wait behind messages of its own user and connection that a
// quota holds back.
func TestSettleAndPublishPassesHeldMessages(t *testing.T) {
	t.Parallel()
	c, cl := roomCluster(t, "u")
	ctx := testContext(t)
	if _, err := cl.PublishOne(ctx, client.Message{RoutingKey: "q", Body: []byte("input")}); err != nil {
		t.Fatal(err)
	}
	full := int64(1)
	if err := cl.SetVHostLimits(ctx, client.SetVHostLimitsRequest{Name: "/", Limits: client.VHostLimits{MaxStoredBytes: &full}}); err != nil {
		t.Fatal(err)
	}
	u, _ := asUser(t, c.Addrs()[0], "u")
	testcluster.Poll(t, "the node knows that the vhost is full", func() error {
		within, stop := context.WithTimeout(ctx, 200*time.Millisecond)
		defer stop()
		_, err := u.PublishOne(within, &brokerv1.PublishOneRequest{Message: &brokerv1.Message{RoutingKey: "q"}})
		if status.Code(err) != codes.ResourceExhausted {
			return fmt.Errorf("a publish: %w", err)
		}
		return nil
	})
	const each = roomy/4/4 - 1<<10
	for range 4 {
		holds(t, u, each)
	}
	awaitHeld(t, c, 4)
	began := time.Now()
	if err := settles(t, u, each); err != nil {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}

// PUB-10: during an alarm streams do not keep the room of their large messages from those who may go on.
func TestAlarmLeavesRoom(t *testing.T) {
	t.Parallel()
	c, cl := roomCluster(t, "a", "b", "c")
	ctx := testContext(t)
	if _, err := cl.PublishOne(ctx, client.Message{RoutingKey: "q", Body: []byte("input")}); err != nil {
		t.Fatal(err)
	}
	c.Broker(0).Alarms.Raise("the test has it")
	defer c.Broker(0).Alarms.End()
	var ends []func() error
	for _, user := range []string{"a", "a", "b", "b"} {
		p, _ := asUser(t, c.Addrs()[0], user)
		ends = append(ends, holds(t, p, roomy/4-1<<10))
	}
	testcluster.Poll(t, "the room is taken", func() error {
		if used := c.Incoming(0).Used(); used < roomy-4<<10 {
			return fmt.Errorf("%d bytes are", used)
		}
		return nil
	})
	p, _ := asUser(t, c.Addrs()[0], "c")
	began := time.Now()
	if err := settles(t, p, roomy-64<<10); err != nil { // all there is
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	for _, end := range ends {
		refused(t, end(), codes.ResourceExhausted, "RESOURCE_EXHAUSTED", "the test has it")
	}
}

// PUB-10: a single publish waits for the end of an alarm, as streams do. One that its client gives up may be stored
// after the alarm, like any publish whose outcome is unknown.
func TestPublishOneWaitsForAlarm(t *testing.T) {
	t.Parallel()
	c, cl := roomCluster(t)
	ctx := testContext(t)
	c.Broker(0).Alarms.Raise("the test has it")
	defer c.Broker(0).Alarms.End()
	soon, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if r, err := cl.PublishOne(soon, client.Message{RoutingKey: "q", Body: []byte("during")}); err == nil {
		t.Errorf("during the alarm: %v", r)
	}
	if m, err := cl.Get(ctx, client.GetRequest{Queue: "q", AutoAck: true}); m != nil || err != nil {
		t.Errorf("stored during the alarm: %v, %v", m, err)
	}
	c.Broker(0).Alarms.End()
	if r, err := cl.PublishOne(ctx, client.Message{RoutingKey: "q", Body: []byte("after")}); err != nil || r.Outcome != client.Confirmed {
		t.Fatalf("%v, %v", r, err)
	}
	m, err := cl.Get(ctx, client.GetRequest{Queue: "q", AutoAck: true})
	if err == nil && m != nil && string(m.Body) == "during" {
		m, err = cl.Get(ctx, client.GetRequest{Queue: "q", AutoAck: true})
	}
	if err != nil || m == nil || string(m.Body) != "after" {
		t.Errorf("%v, %v", m, err)
	}
}
