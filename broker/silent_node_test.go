package broker

import (
	"context"
	"testing"
	"time"

	"github.com/quorate/quorate/broker/queues"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/testnode"
)

// ST-1: the figures of a queue come in time although another node does not say what its members have lost. What it says in
// the end is seen.
func TestFiguresBesideSilentNode(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b := New(testnode.Start(t), Config{})
	t.Cleanup(b.Close)
	if err := b.Serving.AwaitServing(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := b.DeclareQueue(ctx, DeclareQueue{VHost: "/", Name: "q", Durable: true}); err != nil {
		t.Fatal(err)
	}
	rec, _ := b.view().Queue("/", "q")
	answer := make(chan struct{})
	losses := func(ctx context.Context) map[id.QueueUID][]id.NodeID {
		select {
		case <-answer:
			return map[id.QueueUID][]id.NodeID{rec.UID: rec.Members}
		case <-ctx.Done():
			return nil
		}
	}
	shown := queues.New(queues.Config{
		Life: b.life, Cluster: b.cluster, View: b.view, Now: b.now, Policies: b.policies, Losses: losses,
		Serving: b.Serving, Permissions: b.Permissions, Connections: b.Connections,
	})
	online := func() int {
		t.Helper()
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		q, err := shown.Get(ctx, "/", "q")
		if err != nil || q.Leader == "" || q.Stats == nil {
			t.Fatalf("%+v, %v", q, err)
		}
		return len(q.Online)
	}
	if n := online(); n != 1 {
		t.Errorf("%d members are online while the other node is silent, want 1", n)
	}
	close(answer)
	for online() > 0 {
		if ctx.Err() != nil {
			t.Fatal("the lost member stays online")
		}
		time.Sleep(time.Millisecond)
	}
}
