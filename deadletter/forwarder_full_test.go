package deadletter

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/quorumq"
)

// full is the configuration of a source that has room for this many messages, those of its backlog included.
func full(messages int64) func(*quorumq.Config) {
	return func(c *quorumq.Config) {
		atLeastOnce(c)
		c.MaxLength, c.Rules = messages, quorumq.NewestRules
	}
}

// DL-26, LEN-6: a queue that is full of what its consumers rejected, and is its own target, gets it back at its end.
func TestForwarderFullOfItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		source := w.declare("source", full(3))
		w.rules["source"] = Rule{Enabled: true, RoutingKey: "source", HasRoutingKey: true}
		w.discard(source, quorumq.ReasonRejected, "k", "a", "b", "c")
		f, _ := w.start(source, Config{})
		time.Sleep(time.Second)
		synctest.Wait()
		if n := w.backlog(source); n != 0 {
			t.Errorf("%d dead letters wait: %s", n, f.Stats().LastError)
		}
		if got := bodiesOf(w.take(source, 9)); got != "a b c" {
			t.Errorf("the queue has %q", got)
		}
		f.Close()
		f.Wait()
	})
}
