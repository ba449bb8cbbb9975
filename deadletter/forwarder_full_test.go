package deadletter

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/id"
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

// DL-26: queues that are full of dead letters for one another wait, and say what helps: with one place more in one of
// them, all arrive. A queue that only sends into their cycle is not taken for a part of it.
func TestForwarderFullCycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		names := []string{"a", "b", "c", "aside"}
		forwarders := map[string]*Forwarder{}
		for i, name := range names {
			w.rules[name] = Rule{Enabled: true, RoutingKey: names[(i+1)%3], HasRoutingKey: true}
			uid := w.declare(name, full(2))
			w.discard(uid, quorumq.ReasonRejected, "k", name+"1", name+"2")
		}
		for _, name := range names {
			forwarders[name], _ = w.start(w.uid(name), Config{})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for name, way := range map[string]string{"a": "(a → b → c → a)", "b": "(b → c → a → b)", "c": "(c → a → b → c)", "aside": ""} {
			s := forwarders[name].Stats()
			if s.Waiting[CauseFull] != 2 || !strings.Contains(s.LastError, "is full") || !strings.Contains(s.LastError, way) {
				t.Errorf("queue %s: waiting %v, error %q, want one with %q", name, s.Waiting, s.LastError, way)
			}
			if named := strings.Contains(s.LastError, "raise the limit"); named != (way != "") {
				t.Errorf("queue %s says %q", name, s.LastError)
			}
		}
		forwarders["aside"].Close() // it would take the place
		w.configure("b", full(3))
		time.Sleep(time.Minute)
		synctest.Wait()
		for i, name := range names[:3] {
			next := names[(i+1)%3]
			if got, want := bodiesOf(w.take(w.uid(next), 9)), name+"1 "+name+"2"; got != want {
				t.Errorf("queue %s has %q, want %q", next, got, want)
			}
		}
		for _, f := range forwarders {
			f.Close()
			f.Wait()
		}
	})
}

// crowded is a Sender to targets that, while it is set, remember as many ranges of numbers as they may.
type crowded struct {
	*world
	is atomic.Bool
}

func (c *crowded) Transfer(ctx context.Context, target id.QueueUID, t *quorumq.Transfer, bodies [][]byte) (quorumq.Reply, error) {
	if !c.is.Load() {
		return c.world.Transfer(ctx, target, t, bodies)
	}
	var r quorumq.Reply
	for i := range t.DeadLetters {
		r.Refused = append(r.Refused, t.DeadLetters[i].Seq)
	}
	r.Count = uint64(len(r.Refused))
	return r, nil
}

// DL-25: a dead letter that its target has no range for waits, and its queue names the one that must leave first.
func TestForwarderRanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		source, target := w.declare("source", atLeastOnce), w.declare("target", nil)
		w.rules["source"] = Rule{Enabled: true, RoutingKey: "target", HasRoutingKey: true}
		w.discard(source, quorumq.ReasonRejected, "k", "a", "b")
		to := &crowded{world: w}
		to.is.Store(true)
		f := NewForwarder(Config{Chance: func() float64 { return 0.5 }}, &term{w: w, uid: source}, w, to)
		f.Wake()
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := f.Stats(); s.Waiting[CauseRanges] != 2 || !strings.Contains(s.LastError, "number 1 of the backlog") {
			t.Errorf("waiting %v, error %q", s.Waiting, s.LastError)
		}
		to.is.Store(false)
		time.Sleep(maxFullBackoff)
		synctest.Wait()
		if got := bodiesOf(w.take(target, 9)); got != "a b" || f.Stats().LastError != "" {
			t.Errorf("the target has %q, error %q", got, f.Stats().LastError)
		}
		f.Close()
		f.Wait()
	})
}
