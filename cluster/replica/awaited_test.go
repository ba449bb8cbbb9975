package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
)

// All who wait for a queue's event are notified, and nothing is left of who waits no longer.
func TestAwaited(t *testing.T) {
	a := newAwaited()
	notified := func(happened <-chan struct{}) bool {
		select {
		case <-happened:
			return true
		default:
			return false
		}
	}
	a.end(1) // nobody waits
	one, endOne := a.wait(1)
	again, endAgain := a.wait(1)
	other, endOther := a.wait(2)
	endOne()
	if notified(one) || notified(again) {
		t.Error("notified too early")
	}
	a.end(1)
	if !notified(again) || notified(other) {
		t.Error("the wrong one was notified")
	}
	later, endLater := a.wait(1) // for the next one
	endAgain()
	if a.end(1); !notified(later) {
		t.Error("the end of one that was notified ended the wait of another")
	}
	endLater()
	endOther()
	if len(a.queues) != 0 {
		t.Errorf("%d are left", len(a.queues))
	}
}

// RE-1: a declaration is notified once this node leads the queue, whether it waits from before the queue's member is
// open or asks afterwards; also when there are many at the same time.
func TestAwaitLed(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	const queues = 200
	var all sync.WaitGroup
	for i := range queues {
		all.Go(func() {
			r, err := h.Propose(ctx, &catalog.DeclareQueue{
				VHost: "/", Name: fmt.Sprint(i), Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"a"}, Leader: "a",
			})
			if err == nil {
				err = h.AwaitLed(ctx, r.UID)
			}
			if err != nil {
				t.Error(err)
				return
			}
			q := h.Member(r.UID)
			if q == nil || q.Led() == nil {
				t.Errorf("queue %d is not led", i)
				return
			}
			if _, err := q.Overview(ctx); err != nil { // it fails without a configuration in force
				t.Errorf("queue %d: %v", i, err)
			}
			if err := h.AwaitLed(ctx, r.UID); err != nil {
				t.Errorf("queue %d is led already: %v", i, err)
			}
		})
	}
	all.Wait()
	h.noneAwaited()
}

// Who waits for a leader is notified when the member here learns of one.
func TestAwaitLeader(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	uid := h.cfg.Views.View().NextQueueUID()
	learned, end := h.AwaitLeader(uid)
	defer end()
	select {
	case <-learned:
		t.Fatal("a leader of a queue that is not there yet")
	default:
	}
	if got := h.mustPropose(&catalog.DeclareQueue{
		VHost: "/", Name: "q", Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"a"}, Leader: "a",
	}).UID; got != uid {
		t.Fatalf("the queue is %s, want %s", got, uid)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	select {
	case <-learned:
		if n, _ := h.LeaderOf(uid); n != "a" {
			t.Errorf("%q leads", n)
		}
	case <-ctx.Done():
		t.Error("nobody was notified")
	}
}

// A queue that a declaration waits for is opened although the host is busy with other changes of the catalog.
func TestAwaitLedOpensFirst(t *testing.T) {
	t.Parallel()
	h, _ := newBusyHost(t)
	uid := h.mustPropose(&catalog.DeclareQueue{
		VHost: "/", Name: "q", Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"a"}, Leader: "a",
	}).UID
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if err := h.AwaitLed(ctx, uid); err != nil {
		t.Error(err)
	}
}

// A declaration whose time ends before this node leads the queue leaves nothing behind.
func TestAwaitLedInVain(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	h.mustPropose(&catalog.RegisterNode{ID: "b", Address: "127.0.0.1:2", Epoch: 1, Store: "of b"})
	h.mustPropose(&catalog.RegisterNode{ID: "c", Address: "127.0.0.1:3", Epoch: 1, Store: "of c"})
	uid := h.mustPropose(&catalog.DeclareQueue{
		VHost: "/", Name: "q", Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"a", "b", "c"}, Leader: "a",
	}).UID
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	for range cap(ended) {
		go func() { ended <- h.AwaitLed(ctx, uid) }()
	}
	h.poll("both wait, and the member is open", func() error {
		h.ledHere.mu.Lock()
		defer h.ledHere.mu.Unlock()
		if q := h.ledHere.queues[uid]; q == nil || q.waiters != cap(ended) || h.Member(uid) == nil {
			return errWaiting
		}
		return nil
	})
	stop()
	for range cap(ended) {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want the end of the context", err)
		}
	}
	h.noneAwaited()
}

// noneAwaited checks that no declaration waits.
func (h *testHost) noneAwaited() {
	h.t.Helper()
	h.ledHere.mu.Lock()
	defer h.ledHere.mu.Unlock()
	if n := len(h.ledHere.queues); n > 0 {
		h.t.Errorf("%d queues are still waited for", n)
	}
}
