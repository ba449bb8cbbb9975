package deadletter

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/quorumq"
)

// DL-22: however many letters wait for a target, and whatever changes in the catalog
// meanwhile, no more messages are in memory than the window allows, and one per lane.
func TestForwarderWindowHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const letters, prefetch = 500, 10
		w := newWorld(t, 1)
		w.exchange(catalog.ExchangeFanout)
		source, target := w.declare("source", atLeastOnce), w.declare("target", nil)
		w.bind("target", "")
		w.rules["source"] = Rule{Enabled: true, Exchange: "dlx"}
		w.down[target] = true
		var bodies []string
		for i := range letters {
			bodies = append(bodies, fmt.Sprint(i))
		}
		w.discard(source, quorumq.ReasonRejected, "k", bodies...)
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
