package deadletter

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// start makes the forwarder of a source's next term and wakes it.
func (w *world) start(source id.QueueUID, c Config) (*Forwarder, *term) {
	c.Chance = func() float64 { return 0.5 }
	s := &term{w: w, uid: source}
	f := NewForwarder(c, s, w, w)
	f.Wake()
	return f, s
}

func bodiesOf(ms []*message.Message) string {
	var out []string
	for _, m := range ms {
		out = append(out, string(m.Body))
	}
	return strings.Join(out, " ")
}

// DL-25, DL-29: with lost commands, lost answers, late ones of leaders of the past, full
// targets and changes of leader, every target has each dead letter exactly once.
func TestForwarderExactlyOnce(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { simulate(t, seed) })
		})
	}
}

func simulate(t *testing.T, seed uint64) {
	const deadLetters = 400
	w := newWorld(t, seed)
	w.exchange(catalog.ExchangeFanout)
	source := w.declare("source", atLeastOnce)
	targets := []id.QueueUID{
		w.declare("plain", nil),
		w.declare("small", func(c *quorumq.Config) { c.MaxLength, c.Overflow = 7, quorumq.OverflowRejectPublish }),
	}
	w.bind("plain", "")
	w.bind("small", "")
	w.rules["source"] = Rule{Enabled: true, Exchange: "dlx"}
	w.faulty = 0.2
	c := Config{Prefetch: 1 + int(seed)%40}
	f, s := w.start(source, c)
	old := []*Forwarder{f}
	got := make([]map[string]int, len(targets))
	for i := range got {
		got[i] = make(map[string]int)
	}
	drain := func() {
		for i, uid := range targets {
			for _, m := range w.take(uid, deadLetters) {
				got[i][string(m.Body)]++
			}
		}
	}
	for n := 0; n < deadLetters || w.backlog(source) > 0; n++ {
		if n < deadLetters {
			w.discard(source, quorumq.ReasonRejected, "k", fmt.Sprint("m", n))
			f.Wake()
		}
		if n > 100_000 {
			t.Fatalf("%d dead letters are stuck: %+v", w.backlog(source), f.Stats())
		}
		if w.draw(60) == 0 { // the leader is lost; it may not know yet
			if w.draw(2) == 0 {
				s.end()
			}
			f.Close()
			f, s = w.start(source, c)
			old = append(old, f)
		}
		time.Sleep(10 * time.Millisecond)
		if n%5 == 0 {
			drain()
		}
	}
	for _, f := range old {
		f.Close()
		f.Wait()
	}
	time.Sleep(time.Second)
	drain()
	for i := range targets {
		for n := range deadLetters {
			if k := got[i][fmt.Sprint("m", n)]; k != 1 {
				t.Errorf("target %d has dead letter %d %d times", i, n, k)
			}
		}
	}
}

// DL-22, DL-29: dead letters go in order, many in one Transfer, in a bounded window.
func TestForwarderBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		source, target := w.declare("source", atLeastOnce), w.declare("target", nil)
		w.rules["source"] = Rule{Enabled: true, RoutingKey: "target", HasRoutingKey: true}
		var want []string
		for i := range 1000 {
			want = append(want, fmt.Sprint(i))
		}
		w.discard(source, quorumq.ReasonRejected, "k", want...)
		f, _ := w.start(source, Config{Prefetch: 100})
		synctest.Wait()
		if got := bodiesOf(w.take(target, 2000)); got != strings.Join(want, " ") {
			t.Errorf("the target has %s", got)
		}
		if w.backlog(source) != 0 || w.transfers != 10 || w.largest != 100 {
			t.Errorf("backlog %d after %d transfers of up to %d dead letters", w.backlog(source), w.transfers, w.largest)
		}
		if s := f.Stats(); s.Confirmed != 1000 || s.LastError != "" {
			t.Errorf("stats are %+v", s)
		}
		f.mu.Lock()
		if f.running {
			t.Error("a goroutine runs without a backlog")
		}
		f.mu.Unlock()
		f.Close()
		f.Wait()
	})
}

// DL-22: unless it is set, the window holds many small dead letters, and few large ones.
func TestForwarderDefaultWindow(t *testing.T) {
	for size, want := range map[int]int{10: DefaultMaxWindow / 2, 10_000: 25, 200_000: 1} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			source, target := w.declare("source", atLeastOnce), w.declare("target", nil)
			w.rules["source"] = Rule{Enabled: true, RoutingKey: "target", HasRoutingKey: true}
			var bodies []string
			n := min(1500, 20_000_000/size)
			for range n {
				bodies = append(bodies, strings.Repeat("x", size))
			}
			w.discard(source, quorumq.ReasonRejected, "k", bodies...)
			f, _ := w.start(source, Config{})
			synctest.Wait()
			if got := len(w.take(target, 2000)); got != n || w.backlog(source) != 0 {
				t.Errorf("%d of %d dead letters arrived", got, n)
			}
			if w.largest < want*9/10 || w.largest > want*12/10 {
				t.Errorf("dead letters of %d bytes went %d at a time, want about %d", size, w.largest, want)
			}
			f.Close()
			f.Wait()
		})
	}
}

// DL-26: one target that is down holds up nobody else, not even with more dead letters than
// the window holds.
func TestForwarderHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.exchange(catalog.ExchangeDirect)
		source := w.declare("source", atLeastOnce)
		stuck, free := w.declare("stuck", nil), w.declare("free", nil)
		w.bind("stuck", "s")
		w.bind("free", "f")
		w.rules["source"] = Rule{Enabled: true, Exchange: "dlx"}
		w.down[stuck] = true
		for i := range 500 {
			w.discard(source, quorumq.ReasonRejected, "s", fmt.Sprint("s", i))
		}
		w.discard(source, quorumq.ReasonRejected, "f", "x", "y", "z")
		f, s := w.start(source, Config{Prefetch: 4})
		time.Sleep(50 * time.Millisecond)
		if got := bodiesOf(w.take(free, 9)); got != "x y z" {
			t.Fatalf("the free target has %q", got)
		}
		w.mend("stuck")
		time.Sleep(DefaultMaxBackoff)
		synctest.Wait()
		got := w.take(stuck, 1000)
		if len(got) != 500 || string(got[499].Body) != "s499" || w.backlog(source) != 0 {
			t.Errorf("%d of 500 dead letters arrived, backlog %d", len(got), w.backlog(source))
		}
		s.end()
		f.Close()
		f.Wait()
	})
}

// DL-26: dead letters that have left make room for others, however many wait for a target that is away.
func TestForwarderHoldsNobodyUpForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.exchange(catalog.ExchangeDirect)
		source := w.declare("source", atLeastOnce)
		stuck, free := w.declare("stuck", nil), w.declare("free", nil)
		w.bind("stuck", "s")
		w.bind("free", "f")
		w.rules["source"] = Rule{Enabled: true, Exchange: "dlx"}
		w.down[stuck] = true
		const waiting, passing, remembered = 40, 200, 64
		for i := range waiting {
			w.discard(source, quorumq.ReasonRejected, "s", fmt.Sprint("s", i))
		}
		for i := range passing {
			w.discard(source, quorumq.ReasonRejected, "f", fmt.Sprint("f", i))
		}
		f, s := w.start(source, Config{Prefetch: 4, MaxDeadLetters: remembered})
		time.Sleep(DefaultMaxBackoff)
		synctest.Wait()
		if got := w.take(free, passing+1); len(got) != passing || w.backlog(source) != waiting {
			t.Errorf("%d of %d dead letters arrived, backlog %d", len(got), passing, w.backlog(source))
		}
		s.end()
		f.Close()
		f.Wait()
	})
}

// DL-40, DL-41: cyclic targets are left out; when no other is there the dead letter is kept.
func TestForwarderCycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.exchange(catalog.ExchangeFanout)
		source := w.declare("source", atLeastOnce)
		w.bind("source", "")
		w.rules["source"] = Rule{Enabled: true, Exchange: "dlx"}
		w.discard(source, quorumq.ReasonExpired, "k", "a")
		f, _ := w.start(source, Config{})
		synctest.Wait()
		if s := f.Stats(); s.Waiting[CauseCycle] != 1 || !strings.Contains(s.LastError, "source (expired)") {
			t.Fatalf("stats are %+v", s)
		}
		other := w.declare("other", nil)
		w.bind("other", "")
		time.Sleep(time.Second)
		if got := bodiesOf(w.take(other, 9)); got != "a" || w.backlog(source) != 0 {
			t.Fatalf("the other target has %q, backlog %d", got, w.backlog(source))
		}
		// The source itself may be the target of what a consumer rejected.
		w.discard(source, quorumq.ReasonRejected, "k", "b")
		f.Wake()
		synctest.Wait()
		if got := bodiesOf(w.take(source, 9)); got != "b" {
			t.Errorf("the source has %q", got)
		}
		f.Close()
		f.Wait()
	})
}

// DL-43: cycles can be allowed, and bounded by the number of deaths; what has died too often
// waits, and continues when more is allowed.
func TestForwarderHops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.exchange(catalog.ExchangeFanout)
		source := w.declare("source", func(c *quorumq.Config) { atLeastOnce(c); c.MessageTTLMs = 10 })
		w.bind("source", "")
		rule := Rule{Enabled: true, Exchange: "dlx", AllowCycles: true, MaxHops: 4}
		w.rules["source"] = rule
		w.discard(source, quorumq.ReasonExpired, "k", "a")
		f, _ := w.start(source, Config{})
		synctest.Wait()
		round := func() {
			t.Helper()
			time.Sleep(20 * time.Millisecond)
			if _, err := w.apply(source, &quorumq.Expire{}, nil); err != nil {
				t.Fatal(err)
			}
			f.Wake()
			synctest.Wait()
		}
		for hops := 1; hops <= 4; hops++ {
			if n := w.backlog(source); n != 0 {
				t.Fatalf("after %d deaths %d dead letters wait: %s", hops, n, f.Stats().LastError)
			}
			round()
		}
		if s := f.Stats(); s.Waiting[CauseMaxHops] != 1 || !strings.Contains(s.LastError, "died 5 times") {
			t.Fatalf("stats are %+v", s)
		}
		w.mu.Lock()
		rule.MaxHops = 5
		w.rules["source"] = rule
		w.mu.Unlock()
		w.configure("source", atLeastOnce) // what comes back now stays
		w.declare("another", nil)          // a change of the view
		time.Sleep(time.Second)
		got := w.take(source, 9)
		if len(got) != 1 || got[0].Deaths[0].Count != 5 || Hops(got[0].Deaths) != 5 || w.backlog(source) != 0 {
			t.Errorf("the source has %d messages, its backlog %d: %s", len(got), w.backlog(source), f.Stats().LastError)
		}
		f.Close()
		f.Wait()
	})
}

func TestConfigValidate(t *testing.T) {
	c := Config{Prefetch: MaxPrefetch + 1, MinBackoff: time.Second, MaxBackoff: time.Millisecond, MaxCopies: -1}
	err := c.Validate()
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) || len(joined.Unwrap()) != 3 {
		t.Errorf("the faults are %v", err)
	}
	if err := new(Config).Validate(); err != nil {
		t.Error(err)
	}
}

func (w *world) uid(name string) id.QueueUID {
	q, ok := w.View().Queue("/", name)
	if !ok {
		w.t.Fatalf("queue %s is not declared", name)
	}
	return q.UID
}

// mend lets the queue answer again.
func (w *world) mend(name string) {
	uid := w.uid(name)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down[uid] = false
}

func (w *world) configure(name string, edit func(*quorumq.Config)) {
	c := quorumq.DefaultConfig()
	edit(&c)
	if _, err := w.apply(w.uid(name), &quorumq.Configure{Config: c}, nil); err != nil {
		w.t.Fatal(err)
	}
}
