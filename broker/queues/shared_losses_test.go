package queues

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/id"
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
