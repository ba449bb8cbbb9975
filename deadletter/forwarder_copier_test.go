package deadletter

import (
	"testing"
	"testing/synctest"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// DL-10 to DL-12: copies arrive in order; what cannot arrive is lost and counted.
func TestCopier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.exchange(catalog.ExchangeFanout)
		source := w.declare("source", atMostOnce)
		target := w.declare("target", nil)
		small := w.declare("small", func(c *quorumq.Config) { c.MaxLength, c.Overflow = 1, quorumq.OverflowRejectPublish })
		w.bind("target", "")
		w.bind("small", "")
		w.rules["source"] = Rule{Enabled: true, Exchange: "dlx"}
		w.discard(source, quorumq.ReasonRejected, "k", "a", "b", "c")
		x := NewCopier(Config{MaxCopies: 3}, &term{w: w, uid: source}, w, w)
		copies := w.machine(source).copies
		x.Add(append(copies, copies[0]))
		synctest.Wait()
		if a, b := bodiesOf(w.take(target, 9)), bodiesOf(w.take(small, 9)); a != "a b c" || b != "a" {
			t.Errorf("the targets have %q and %q", a, b)
		}
		if s := x.Stats(); s.Sent != 4 || s.Lost[CauseFull] != 2 || s.Lost[CauseOverflow] != 1 {
			t.Errorf("stats are %+v", s)
		}
		w.mu.Lock()
		w.rules["source"] = Rule{Enabled: true, Exchange: "none"}
		w.mu.Unlock()
		x.Add(copies)
		synctest.Wait()
		if s := x.Stats(); s.Lost[CauseNoExchange] != 3 {
			t.Errorf("stats are %+v", s)
		}
		w.mu.Lock()
		w.rules["source"] = Rule{Enabled: true, Exchange: "dlx", MaxHops: 1}
		w.mu.Unlock()
		old := &message.Message{RoutingKeys: []string{"k"}, Body: []byte("a"), Deaths: []message.Death{{Queue: "before", Reason: "expired", Count: 1}}}
		w.mu.Lock()
		w.machines[source].bodies[copies[0].Body] = message.Append(nil, old)
		w.mu.Unlock()
		x.Add(copies[:1])
		synctest.Wait()
		if s := x.Stats(); s.Lost[CauseMaxHops] != 1 || len(w.take(target, 9)) != 0 { // DL-43
			t.Errorf("stats are %+v", s)
		}
		x.Close()
		x.Wait()
	})
}
