package testcluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/message"
)

// G-22: a pipeline that settles each input together with its output loses and repeats no
// output while the leaders of its queues are killed, whether it gets its inputs or consumes them.
func TestPipelineOverCrashes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	c := testcluster.Start(t, 3)
	cl := openClient(t, c)
	for how, step := range map[string]func(*testing.T, *client.Client, string) func() bool{"get": gets, "stream": streams} {
		t.Run(how, func(t *testing.T) { pipelineOverCrashes(t, c, cl, how+".", step) })
	}
}

func pipelineOverCrashes(t *testing.T, c *testcluster.Cluster, cl *client.Client, prefix string, step func(*testing.T, *client.Client, string) func() bool) {
	const n = 40
	ctx := testContext(t)
	for _, q := range []string{"in", "out"} {
		// A message that a dead node's client held comes again at once.
		if _, err := cl.DeclareQueue(ctx, client.Queue{Name: prefix + q, Arguments: client.Table{"x-consumer-disconnected-timeout": 0}}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		if _, err := cl.PublishOne(ctx, client.Message{RoutingKey: prefix + "in", Body: []byte(fmt.Sprint(i))}); err != nil {
			t.Fatal(err)
		}
	}
	kill := map[int]string{n / 4: "in", n / 2: "out"}
	more := step(t, cl, prefix)
	for i := 0; ; i++ {
		if q := kill[i]; q != "" {
			crashLeader(t, c, cl, prefix+q)
		}
		if !more() {
			break
		}
	}
	got := map[string]int{}
	testcluster.Poll(t, "all outputs have arrived", func() error {
		// Looked at first: what leaves it later may arrive behind the last Get.
		q, err := cl.GetQueue(ctx, client.QueueRef{Name: prefix + "in"})
		if err == nil && (q.Stats == nil || q.Stats.Messages > 0) {
			err = fmt.Errorf("the source has %v", q.Stats)
		}
		for {
			m, getErr := cl.Get(ctx, client.GetRequest{Queue: prefix + "out", AutoAck: true})
			if m == nil || getErr != nil {
				return errors.Join(err, getErr)
			}
			got[string(m.Body)]++
		}
	})
	for i := range n {
		if k := got[fmt.Sprint(i)]; k != 1 {
			t.Errorf("output %d has arrived %d times", i, k)
		}
	}
}

func gets(t *testing.T, cl *client.Client, prefix string) func() bool {
	return func() bool { return pipe(t, cl, prefix) }
}

// streams consumes the inputs. It returns what takes one and settles it for its output; false
// when no input is left.
func streams(t *testing.T, cl *client.Client, prefix string) func() bool {
	s, err := cl.Consume(testContext(t), client.ConsumeConfig{Queue: prefix + "in", Prefetch: 5})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return func() bool {
		ctx := testContext(t)
		var in *client.Delivery
		testcluster.Poll(t, "an input, or none is left", func() error {
			soon, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			defer cancel()
			d, err := s.Receive(soon)
			if err == nil {
				in = d
				return nil
			}
			q, statusErr := cl.GetQueue(ctx, client.QueueRef{Name: prefix + "in"})
			if m := q.Stats; statusErr == nil && m != nil && m.MessagesReady+m.MessagesUnacknowledged == 0 {
				return nil
			}
			return errors.Join(err, statusErr)
		})
		if in == nil {
			return false
		}
		err := in.SettleAndPublish(ctx, client.Message{RoutingKey: prefix + "out", Body: in.Body})
		if err != nil && !errors.Is(err, client.ErrStale) { // stale: an earlier try, or it comes again
			t.Fatal(err)
		}
		return true
	}
}

// pipe takes one input and settles it for its output, for as long as the outcome is open;
// false when no input is left.
func pipe(t *testing.T, cl *client.Client, prefix string) (more bool) {
	t.Helper()
	ctx := testContext(t)
	var in *client.Taken
	testcluster.Poll(t, "an input, or none is left", func() (err error) {
		if in, err = cl.Get(ctx, client.GetRequest{Queue: prefix + "in"}); err != nil || in != nil {
			return err
		}
		q, err := cl.GetQueue(ctx, client.QueueRef{Name: prefix + "in"})
		if s := q.Stats; err == nil && (s == nil || s.MessagesReady+s.MessagesUnacknowledged > 0) {
			err = fmt.Errorf("inputs come back: %v", s)
		}
		return err
	})
	if in == nil {
		return false
	}
	testcluster.Poll(t, "a decision", func() error {
		err := cl.SettleAndPublish(ctx, client.SettleAndPublishRequest{
			Token: in.Token, Outputs: []client.Message{{RoutingKey: prefix + "out", Body: in.Body}},
		})
		var e *client.Error
		if errors.As(err, &e) && e.Class == client.PreconditionFailed {
			return nil // an earlier try, or it comes again
		}
		return err
	})
	return true
}

// crashLeader kills the node that leads a queue, and starts it again.
func crashLeader(t *testing.T, c *testcluster.Cluster, cl *client.Client, queue string) {
	t.Helper()
	leader := ""
	testcluster.Poll(t, "a leader of "+queue, func() error {
		q, err := cl.GetQueue(testContext(t), client.QueueRef{Name: queue})
		if leader = q.Leader; err == nil && leader == "" {
			err = errors.New("it has none")
		}
		return err
	})
	i := c.Index(leader)
	c.Kill(i)
	c.Restart(i)
}

// G-22: deliveries of a stream are settled together with outputs through any node; a repeat and
// what is at fault change nothing.
func TestStreamTransactions(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	c := testcluster.Start(t, 3)
	cl := openClient(t, c)
	ctx := identity.WithIdentity(testContext(t), identity.Itself())
	for _, q := range []string{"in", "out"} {
		if _, err := cl.DeclareQueue(ctx, client.Queue{Name: q}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 7 {
		if _, err := cl.PublishOne(ctx, client.Message{RoutingKey: "in", Body: []byte(fmt.Sprint(i))}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := c.Broker(0).Get(ctx, "/", "in", false)
	if err != nil || got.Delivery == nil {
		t.Fatal(got, err)
	}
	s, err := c.Broker(0).Consume(ctx, broker.Consume{VHost: "/", Queue: "in"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var ids []uint64
	testcluster.Poll(t, "six deliveries", func() error {
		ds, err := s.Take(nil, 10, 1<<20)
		for _, d := range ds {
			ids = append(ids, d.ID)
		}
		if err == nil && len(ids) < 6 {
			err = fmt.Errorf("there are %d", len(ids))
		}
		return err
	})
	transact := func(node int, token string, ids ...uint64) error {
		b := c.Broker(node)
		sender, err := b.NewSender(ctx, &broker.SendRights{})
		if err != nil {
			t.Fatal(err)
		}
		return b.SettleAndPublish(ctx, token, ids, sender, []broker.Publish{{RoutingKey: "out", Message: message.Message{Body: []byte(fmt.Sprint(ids))}}})
	}
	token, err := s.SettleToken(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := transact(1, token, ids[0], ids[2]); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		err error
		arg string
	}{
		"a repeat":              {transact(2, token, ids[0], ids[2]), "settle_token"},
		"one is not held":       {transact(0, token, ids[1], ids[2]), "settle_token"},
		"one is named twice":    {transact(0, token, ids[1], ids[1]), "settle_token"},
		"one never was":         {transact(0, token, ids[1], 1000), "settle_token"},
		"none":                  {transact(0, token), "delivery_ids"},
		"number 0":              {transact(0, token, 0), "delivery_ids"},
		"ids with Get's token":  {transact(0, got.Token, ids[1]), "delivery_ids"},
		"a token is settled":    {c.Broker(0).SettleToken(ctx, token, broker.Ack, false, nil, broker.Delay{}), "settle_token"},
		"too many":              {transact(0, token, make([]uint64, broker.MaxSettlementIDs+1)...), "delivery_ids"},
		"a token that is wrong": {transact(0, token[:len(token)-2], ids[1]), "settle_token"},
	} {
		var e *failure.Error
		if !errors.As(row.err, &e) || e.Class != failure.PreconditionFailed || e.Arg != row.arg {
			t.Errorf("%s: %v, want PRECONDITION_FAILED about %s", name, row.err, row.arg)
		}
	}
	// All others are still held; acks on the stream of what is settled change nothing.
	if _, err := s.Settle(&broker.Settlement{IDs: []uint64{ids[0], ids[2]}, Outcome: broker.Requeue}); err != nil {
		t.Fatal(err)
	}
	if err := transact(2, token, ids[1], ids[3], ids[4], ids[5]); err != nil {
		t.Error(err)
	}
	if err := transact(1, got.Token); err != nil {
		t.Error(err)
	}
	want := []string{fmt.Sprint([]uint64{ids[0], ids[2]}), fmt.Sprint([]uint64{ids[1], ids[3], ids[4], ids[5]}), "[]"}
	var outputs []string
	testcluster.Poll(t, "three outputs, and nothing else", func() error {
		for {
			m, err := cl.Get(ctx, client.GetRequest{Queue: "out", AutoAck: true})
			if err != nil {
				return err
			}
			if m == nil {
				break
			}
			outputs = append(outputs, string(m.Body))
		}
		q, err := cl.GetQueue(ctx, client.QueueRef{Name: "in"})
		if err == nil && (len(outputs) < len(want) || q.Stats == nil || q.Stats.Messages > 0) {
			err = fmt.Errorf("outputs %q, the source has %v", outputs, q.Stats)
		}
		return err
	})
	if !slices.Equal(outputs, want) {
		t.Errorf("outputs %q, want %q", outputs, want)
	}
}
