package testcluster_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
)

// G-22: a pipeline that settles each input together with its output loses and repeats no
// output while the leaders of its queues are killed.
func TestPipelineOverCrashes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	const n = 40
	c := testcluster.Start(t, 3)
	cl := openClient(t, c)
	ctx := testContext(t)
	for _, q := range []string{"in", "out"} {
		// A message that a dead node's client held comes again at once.
		if _, err := cl.DeclareQueue(ctx, client.Queue{Name: q, Arguments: client.Table{"x-consumer-disconnected-timeout": 0}}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		if _, err := cl.PublishOne(ctx, client.Message{RoutingKey: "in", Body: []byte(fmt.Sprint(i))}); err != nil {
			t.Fatal(err)
		}
	}
	kill := map[int]string{n / 4: "in", n / 2: "out"}
	for step := 0; ; step++ {
		if q := kill[step]; q != "" {
			crashLeader(t, c, cl, q)
		}
		if !pipe(t, cl) {
			break
		}
	}
	got := map[string]int{}
	testcluster.Poll(t, "all outputs have arrived", func() error {
		for {
			m, err := cl.Get(ctx, "", "out", true)
			if err != nil {
				return err
			}
			if m == nil {
				break
			}
			got[string(m.Body)]++
		}
		q, err := cl.GetQueue(ctx, "", "in")
		if err == nil && (q.GetStats() == nil || q.GetStats().GetMessages() > 0) {
			err = fmt.Errorf("the source has %v", q.GetStats())
		}
		return err
	})
	for i := range n {
		if k := got[fmt.Sprint(i)]; k != 1 {
			t.Errorf("output %d has arrived %d times", i, k)
		}
	}
}

// pipe takes one input and settles it for its output, for as long as the outcome is open;
// false when no input is left.
func pipe(t *testing.T, cl *client.Client) (more bool) {
	t.Helper()
	ctx := testContext(t)
	var in *client.Taken
	testcluster.Poll(t, "an input, or none is left", func() (err error) {
		if in, err = cl.Get(ctx, "", "in", false); err != nil || in != nil {
			return err
		}
		q, err := cl.GetQueue(ctx, "", "in")
		if s := q.GetStats(); err == nil && (s == nil || s.GetMessagesReady()+s.GetMessagesUnacknowledged() > 0) {
			err = fmt.Errorf("inputs come back: %v", s)
		}
		return err
	})
	if in == nil {
		return false
	}
	testcluster.Poll(t, "a decision", func() error {
		err := cl.SettleAndPublish(ctx, in.Token, client.Message{RoutingKey: "out", Body: in.Body})
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
		q, err := cl.GetQueue(testContext(t), "", queue)
		if leader = q.GetLeader(); err == nil && leader == "" {
			err = errors.New("it has none")
		}
		return err
	})
	i := c.Index(leader)
	c.Kill(i)
	c.Restart(i)
}
