package deadletter

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// waiting makes a queue with so many dead letters for another one that is down.
func (w *world) waiting(letters int, why quorumq.Reason) (source, target id.QueueUID) {
	w.exchange(catalog.ExchangeFanout)
	source, target = w.declare("source", atLeastOnce), w.declare("target", nil)
	w.bind("target", "")
	w.rules["source"] = Rule{Enabled: true, Exchange: "dlx"}
	w.down[target] = true
	var bodies []string
	for i := range letters {
		bodies = append(bodies, fmt.Sprint(i))
	}
	w.discard(source, why, "k", bodies...)
	return source, target
}

// DL-22: however many letters wait for a target, and whatever changes in the catalog
// meanwhile, no more messages are in memory than the window allows, and one per lane.
func TestForwarderWindowHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const letters, prefetch = 500, 10
		w := newWorld(t, 1)
		source, target := w.waiting(letters, quorumq.ReasonRejected)
		f := NewForwarder(Config{Prefetch: prefetch}, &term{w: w, uid: source}, w, w)
		r := newForwarding(f)
		most := 0
		turnUntil := func(done func() bool) {
			for n := 0; !done(); n++ {
				if n > 100_000 {
					t.Fatalf("%d of %d letters are known, %d wait in the backlog", len(r.letters), letters, w.backlog(source))
				}
				if !r.turn() {
					t.Fatal("the term is over")
				}
				most = max(most, r.held)
				r.wait()
				most = max(most, r.held)
			}
		}
		turnUntil(func() bool { return len(r.letters) == letters })
		w.mu.Lock()
		delete(w.down, target)
		w.mu.Unlock()
		w.declare("another", nil) // the view changes: all letters are routed anew
		turnUntil(func() bool { return w.backlog(source) == 0 })
		if most > prefetch+1 {
			t.Errorf("%d messages were in memory, the window is %d", most, prefetch)
		}
		if got := len(w.take(target, 2*letters)); got != letters {
			t.Errorf("%d of %d letters arrived", got, letters)
		}
		f.Close()
		f.Wait()
	})
}

// While a Transfer is under way the next one's letters are made ready, also when many more
// wait behind them and are routed anew: what is held of those would only take their room.
func TestForwarderReadsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const letters = 4000
		w := newWorld(t, 1)
		w.slow = 10 * time.Millisecond
		source, target := w.waiting(letters, quorumq.ReasonExpired)
		f := NewForwarder(Config{}, &term{w: w, uid: source}, w, w)
		r := newForwarding(f)
		turn := func() (flying *lane) {
			r.wait()
			if !r.turn() {
				t.Fatal("the term is over")
			}
			if n := r.lanes[target]; n != nil && len(n.flight) > 0 {
				return n
			}
			return nil
		}
		for r.turn(); len(r.letters) < letters; turn() {
		}
		w.mu.Lock()
		delete(w.down, target)
		w.mu.Unlock()
		w.declare("another", nil) // the view changes: all letters are routed anew
		for w.backlog(source) > 0 {
			n := turn()
			if n == nil || n.failures > 0 {
				continue
			}
			next := r.cfg.transfer
			for i, l := range n.queue[:min(next, len(n.queue))] {
				if !l.ready() {
					t.Fatalf("while %d letters are on their way, with %d behind them, only %d of the next %d are ready",
						len(n.flight), len(n.queue), i, next)
				}
			}
		}
		if got := len(w.take(target, 2*letters)); got != letters {
			t.Errorf("%d of %d letters arrived", got, letters)
		}
		f.Close()
		f.Wait()
	})
}
