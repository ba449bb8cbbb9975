package broker

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/testnode"
)

// A node that does not answer holds up nobody: one question is under way at a time, its answers are seen in the end, and
// until then those before count.
func TestNewestLosses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const queue = id.QueueUID(1024)
		var asked atomic.Int32
		answers := make(chan lostMembers)
		s := sharedLosses{ask: func(context.Context) map[id.QueueUID][]id.NodeID {
			asked.Add(1)
			return <-answers
		}}
		look := func(ctx context.Context, takes time.Duration, want ...id.NodeID) {
			t.Helper()
			began := time.Now()
			s.refresh(t.Context())
			lost := s.newest(ctx, lossesWait)[queue]
			if took := time.Since(began); took != takes || !slices.Equal(lost, want) {
				t.Errorf("after %v %q have lost it, want %q after %v", took, lost, want, takes)
			}
		}
		short, cancel := context.WithTimeout(t.Context(), lossesWait/2)
		defer cancel()
		look(short, lossesWait/4)
		look(t.Context(), lossesWait-lossesWait/4)
		look(t.Context(), 0)
		answers <- lostMembers{queue: {"a"}}
		synctest.Wait()
		look(t.Context(), 0, "a")
		time.Sleep(figuresFreshFor)
		look(t.Context(), lossesWait, "a")
		answers <- lostMembers{queue: {"b"}}
		synctest.Wait()
		look(t.Context(), 0, "b")
		if n := asked.Load(); n != 2 {
			t.Errorf("the nodes were asked %d times, want 2", n)
		}
	})
}

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
	b.losses.ask = func(ctx context.Context) map[id.QueueUID][]id.NodeID {
		select {
		case <-answer:
			return lostMembers{rec.UID: rec.Members}
		case <-ctx.Done():
			return nil
		}
	}
	online := func() int {
		t.Helper()
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		q, err := b.GetQueue(ctx, "/", "q")
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
