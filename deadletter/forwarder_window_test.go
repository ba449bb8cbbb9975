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
func (w *world) waiting(deadLetters int, why quorumq.Reason) (source, target id.QueueUID) {
	w.exchange(catalog.ExchangeFanout)
	source, target = w.declare("source", atLeastOnce), w.declare("target", nil)
	w.bind("target", "")
	w.rules["source"] = Rule{Enabled: true, Exchange: "dlx"}
	w.down[target] = true
	var bodies []string
	for i := range deadLetters {
		bodies = append(bodies, fmt.Sprint(i))
	}
	w.discard(source, why, "k", bodies...)
	return source, target
}

// DL-22: however many dead letters wait for a target, and whatever changes in the catalog
// meanwhile, no more messages are in memory than the window allows, and one per target queue.
func TestForwarderWindowHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const deadLetters, prefetch = 500, 10
		w := newWorld(t, 1)
		source, target := w.waiting(deadLetters, quorumq.ReasonRejected)
		f := NewForwarder(Config{Prefetch: prefetch}, &term{w: w, uid: source}, w, w)
		r := newForwarding(f)
		most := 0
		stepUntil := func(done func() bool) {
			for n := 0; !done(); n++ {
				if n > 100_000 {
					t.Fatalf("%d of %d dead letters are known, %d wait in the backlog", len(r.deadLetters), deadLetters, w.backlog(source))
				}
				if !r.step() {
					t.Fatal("the term is over")
				}
				most = max(most, r.held)
				r.wait()
				most = max(most, r.held)
			}
		}
		stepUntil(func() bool { return len(r.deadLetters) == deadLetters })
		w.mu.Lock()
		delete(w.down, target)
		w.mu.Unlock()
		w.declare("another", nil) // the view changes: all dead letters are routed anew
		stepUntil(func() bool { return w.backlog(source) == 0 })
		if most > prefetch+1 {
			t.Errorf("%d messages were in memory, the window is %d", most, prefetch)
		}
		if got := len(w.take(target, 2*deadLetters)); got != deadLetters {
			t.Errorf("%d of %d dead letters arrived", got, deadLetters)
		}
		f.Close()
		f.Wait()
	})
}

// While a Transfer is under way the next one's dead letters are made ready, also when many more
// wait behind them and are routed anew: what is held of those would only take their room.
func TestForwarderReadsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const deadLetters = 4000
		w := newWorld(t, 1)
		w.slow = 10 * time.Millisecond
		source, target := w.waiting(deadLetters, quorumq.ReasonExpired)
		f := NewForwarder(Config{}, &term{w: w, uid: source}, w, w)
		r := newForwarding(f)
		step := func() (flying *targetQueue) {
			r.wait()
			if !r.step() {
				t.Fatal("the term is over")
			}
			if n := r.targetQueues[target]; n != nil && len(n.inFlight) > 0 {
				return n
			}
			return nil
		}
		for r.step(); len(r.deadLetters) < deadLetters; step() {
		}
		w.mu.Lock()
		delete(w.down, target)
		w.mu.Unlock()
		w.declare("another", nil) // the view changes: all dead letters are routed anew
		for w.backlog(source) > 0 {
			n := step()
			if n == nil || n.failures > 0 {
				continue
			}
			next := r.cfg.transfer
			for i, l := range n.queue[:min(next, len(n.queue))] {
				if !l.ready() {
					t.Fatalf("while %d dead letters are on their way, with %d behind them, only %d of the next %d are ready",
						len(n.inFlight), len(n.queue), i, next)
				}
			}
		}
		if got := len(w.take(target, 2*deadLetters)); got != deadLetters {
			t.Errorf("%d of %d dead letters arrived", got, deadLetters)
		}
		f.Close()
		f.Wait()
	})
}
