package metadata

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/quorate/quorate/id"
)

// Many who wait for a peer at the same time ask it twice: once for the first, and once for
// all who came meanwhile.
func TestSpreadAsksOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := propagation{peers: map[id.NodeID]*sight{}}
		var asked []uint64
		answer := make(chan struct{})
		ask := func(index uint64) error {
			asked = append(asked, index)
			<-answer
			return t.Context().Err()
		}
		var all sync.WaitGroup
		for i := uint64(1); i <= 50; i++ {
			all.Go(func() {
				if err := s.awaitPeer(t.Context(), "b", i, ask); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		close(answer)
		all.Wait()
		if len(asked) != 2 || asked[0] != 1 || asked[1] != 50 {
			t.Errorf("asked for %d, want 1 and 50", asked)
		}
		if err := s.awaitPeer(t.Context(), "b", 50, ask); err != nil || len(asked) != 2 {
			t.Errorf("asked again for what was seen: %d, %v", asked, err)
		}
	})
}

// A question that fails is the failure of who asked; others ask for themselves, and give up
// when their own time is over.
func TestSpreadFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := propagation{peers: map[id.NodeID]*sight{}}
		broken, answer := errors.New("broken"), make(chan error)
		ask := func(uint64) error { return <-answer }
		first, second, third := make(chan error, 1), make(chan error, 1), make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { first <- s.awaitPeer(t.Context(), "b", 1, ask) }()
		synctest.Wait()
		go func() { second <- s.awaitPeer(ctx, "b", 2, ask) }()
		synctest.Wait()
		cancel()
		if err := <-second; !errors.Is(err, context.Canceled) {
			t.Errorf("who waits no longer: %v", err)
		}
		go func() { third <- s.awaitPeer(t.Context(), "b", 2, ask) }()
		synctest.Wait()
		answer <- broken
		if err := <-first; !errors.Is(err, broken) {
			t.Errorf("who asked: %v", err)
		}
		answer <- nil
		if err := <-third; err != nil {
			t.Errorf("who asks again: %v", err)
		}
	})
}
