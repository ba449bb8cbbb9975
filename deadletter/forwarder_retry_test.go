package deadletter

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/quorumq"
)

// what is purged while it waits is not forwarded later.
func TestForwarderPurged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		source, target := w.declare("source", atLeastOnce), w.declare("target", nil)
		w.rules["source"] = Rule{Enabled: true, RoutingKey: "target", HasRoutingKey: true}
		w.down[target] = true
		w.discard(source, quorumq.ReasonRejected, "k", "a", "b")
		f, _ := w.start(source, Config{})
		time.Sleep(10 * time.Second)
		if _, err := w.apply(source, &quorumq.Purge{}, nil); err != nil {
			t.Fatal(err)
		}
		w.mend("target")
		w.discard(source, quorumq.ReasonRejected, "k", "c")
		f.Wake()
		time.Sleep(2 * DefaultMaxBackoff)
		if got := bodiesOf(w.take(target, 9)); got != "c" {
			t.Errorf("the target has %q", got)
		}
		f.Close()
		f.Wait()
	})
}

// DL-24: the wait doubles up to its bound, and a hint cuts it short.
func TestForwarderBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		source, target := w.declare("source", atLeastOnce), w.declare("target", nil)
		w.rules["source"] = Rule{Enabled: true, RoutingKey: "target", HasRoutingKey: true}
		w.down[target] = true
		w.discard(source, quorumq.ReasonRejected, "k", "a")
		f, _ := w.start(source, Config{})
		// Waits of 75 ms, 150, 300, 600, 1.2 s, 2.4 s, and then 3.75 s each: three
		// quarters of the bound with this source of chance.
		time.Sleep(4725*time.Millisecond + 10*3750*time.Millisecond + time.Millisecond)
		w.mu.Lock()
		if w.transfers != 17 {
			t.Errorf("%d attempts, want 17", w.transfers)
		}
		w.mu.Unlock()
		w.mend("target")
		f.Retry(target)
		synctest.Wait()
		if got := bodiesOf(w.take(target, 9)); got != "a" {
			t.Errorf("after the hint the target has %q", got)
		}
		f.Close()
		f.Wait()
	})
}

// DL-24: a full target gets its dead letters soon after it has room, however long it was full,
// and is asked with one dead letter at a time until then.
func TestForwarderFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		source := w.declare("source", atLeastOnce)
		target := w.declare("target", func(c *quorumq.Config) { c.MaxLength, c.Overflow = 3, quorumq.OverflowRejectPublish })
		w.rules["source"] = Rule{Enabled: true, RoutingKey: "target", HasRoutingKey: true}
		w.discard(source, quorumq.ReasonRejected, "k", "a", "b", "c", "d", "e", "f")
		f, _ := w.start(source, Config{})
		time.Sleep(time.Hour)
		w.mu.Lock()
		w.largest = 0
		w.mu.Unlock()
		time.Sleep(time.Hour)
		w.mu.Lock()
		if w.largest != 1 {
			t.Errorf("the full target is asked with %d dead letters", w.largest)
		}
		w.mu.Unlock()
		if got := bodiesOf(w.take(target, 9)); got != "a b c" {
			t.Errorf("at first the target has %q", got)
		}
		time.Sleep(maxFullBackoff)
		synctest.Wait()
		if got := bodiesOf(w.take(target, 9)); got != "d e f" {
			t.Errorf("with room the target has %q", got)
		}
		f.Close()
		f.Wait()
	})
}
