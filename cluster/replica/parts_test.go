package replica

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// Timers fire in the order of their times. A later time replaces an earlier one, and a timer that
// is dropped does not fire.
func TestTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var fired []string
		start := time.Now()
		var ts *timers
		set := func(q id.QueueUID, after time.Duration) {
			at := start.Add(after).UnixMilli()
			ts.set(q, quorumq.Time(at-7), at)
		}
		turned := func() { set(5, 6*time.Second) }
		due := func(q id.QueueUID, at quorumq.Time) {
			mu.Lock()
			defer mu.Unlock()
			fired = append(fired, fmt.Sprintf("%d after %v", q, time.Since(start)))
			if want := quorumq.Time(time.Now().UnixMilli() - 7); at != want {
				t.Errorf("queue %d had asked for %d, was told %d", q, want, at)
			}
		}
		ts = newTimers(func() int64 { return time.Now().UnixMilli() }, due, turned)
		stop := make(chan struct{})
		var running sync.WaitGroup
		running.Go(func() { ts.run(stop) })
		set(1, 3*time.Second)
		set(2, 100*time.Millisecond)
		set(3, 200*time.Millisecond)
		set(4, 10*time.Millisecond)
		ts.drop(4)
		set(3, 5*time.Second)
		set(1, 50*time.Millisecond)
		set(5, time.Hour)
		ts.turn() // the time of the cluster was set
		three := quorumq.Time(start.Add(5*time.Second).UnixMilli() - 7)
		ts.again(3, three-1, 1) // the queue has asked for another time since
		time.Sleep(10 * time.Second)
		synctest.Wait()
		close(stop)
		running.Wait()
		want := []string{"1 after 50ms", "2 after 100ms", "3 after 5s", "5 after 6s"}
		if !slices.Equal(fired, want) {
			t.Errorf("fired %q, want %q", fired, want)
		}
		if len(ts.where) != 0 || len(ts.heap) != 0 {
			t.Errorf("left %v", ts.where)
		}
	})
}

// A queue that hibernates, of which nobody knows the time, wakes when it would have woken, although the cluster's time was
// set back meanwhile. Where that was set forward it wakes by the new time.
func TestTimersOfSleepers(t *testing.T) {
	for name, x := range map[string]struct {
		set  time.Duration
		want string
	}{"back": {-time.Hour, "1 after 10s"}, "forward": {5 * time.Second, "1 after 5s"}, "far forward": {time.Hour, "1 after 2s"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var off atomic.Int64
				fired := make(chan string, 2)
				start := time.Now()
				now := func() int64 { return time.Now().Add(time.Duration(off.Load())).UnixMilli() }
				var ts *timers
				ts = newTimers(now, func(q id.QueueUID, _ quorumq.Time) {
					fired <- fmt.Sprintf("%d after %v", q, time.Since(start))
				}, func() { ts.setBack() })
				stop := make(chan struct{})
				var running sync.WaitGroup
				running.Go(func() { ts.run(stop) })
				ts.set(1, 0, now()+10_000)
				ts.set(2, 7, now()+3*time.Hour.Milliseconds()) // its leader sets this one again
				time.Sleep(2 * time.Second)
				off.Store(int64(x.set))
				ts.turn()
				if got := <-fired; got != x.want {
					t.Errorf("%q, want %q", got, x.want)
				}
				close(stop)
				running.Wait()
				if e := ts.where[2]; e == nil || e.due != start.Add(3*time.Hour).UnixMilli() {
					t.Errorf("the timer of a queue with a leader is %+v", e)
				}
			})
		})
	}
}

// What a host knows of a peer: a newer epoch counts more than a connection of an older one, and of
// two connections the newer one counts.
func TestPeers(t *testing.T) {
	p := newPeers("self", 7)
	if got := p.presence("self"); got != (presence{epoch: 7, up: true}) {
		t.Errorf("self %+v", got)
	}
	at := func(e id.Epoch) transport.Peer { return transport.Peer{Node: "p", Epoch: e} }
	step := func(what string, changed, wantChanged bool, want presence) {
		t.Helper()
		if changed != wantChanged || p.presence("p") != want {
			t.Errorf("%s: changed %v, %+v", what, changed, p.presence("p"))
		}
	}
	step("unknown", false, false, presence{})
	step("up", p.inbound(at(1), true), true, presence{epoch: 1, up: true})
	step("old news", p.heard("p", 1), false, presence{epoch: 1, up: true})
	step("new life", p.heard("p", 2), true, presence{epoch: 2})
	step("old link goes", p.inbound(at(1), false), false, presence{epoch: 2})
	step("new link", p.inbound(at(2), true), true, presence{epoch: 2, up: true})
	step("down", p.inbound(at(2), false), true, presence{epoch: 2})
	step("silent while down", p.answers("p", false), false, presence{epoch: 2})
	step("up, and silent", p.inbound(at(2), true), false, presence{epoch: 2})
	step("nothing listens, by an old word", p.hasEnded("p"), false, presence{epoch: 2})
	step("it answers", p.answers("p", true), true, presence{epoch: 2, up: true})
	step("down again", p.inbound(at(2), false), true, presence{epoch: 2})
	step("nothing listens", p.hasEnded("p"), true, presence{epoch: 2, ended: true})
	step("nothing listens still", p.hasEnded("p"), false, presence{epoch: 2, ended: true})
	step("it lives all the same", p.inbound(at(2), true), true, presence{epoch: 2, up: true})
	step("newer link before the catalog", p.inbound(at(3), true), true, presence{epoch: 3, up: true})
}

// A mailbox does its tasks in order and one at a time, including those posted before start. A
// closed mailbox accepts no task.
func TestMailbox(t *testing.T) {
	w := startWorkers(4)
	var boxes []*mailbox
	var done [8][]int
	var busy [8]atomic.Bool
	for b := range done {
		m := &mailbox{workers: w}
		boxes = append(boxes, m)
		m.act = func(e *effects) {
			for _, d := range e.deliver {
				done[b] = append(done[b], int(d.MsgID))
			}
		}
	}
	const each = 1000
	post := func(i int) {
		for b, m := range boxes {
			if i%3 == 0 {
				m.gather(func(e *effects, _ int) int {
					e.deliver = append(e.deliver, quorumq.Delivery{MsgID: quorumq.MsgID(i)})
					return 1
				})
				continue
			}
			m.post(func() {
				if busy[b].Swap(true) {
					t.Error("two tasks of a mailbox at a time")
				}
				done[b] = append(done[b], i)
				busy[b].Store(false)
			})
		}
	}
	for i := range each {
		if i == 10 {
			for _, m := range boxes {
				m.start()
			}
		}
		post(i)
	}
	for _, m := range boxes {
		m.close()
		if m.post(func() { t.Error("done after close") }) {
			t.Error("a closed mailbox took a task")
		}
	}
	w.close()
	for b := range done {
		if len(done[b]) != each || !slices.IsSorted(done[b]) {
			t.Errorf("mailbox %d did %d tasks, sorted %v", b, len(done[b]), slices.IsSorted(done[b]))
		}
	}
}

// Paused consumers that have gone are forgotten.
func TestPausedForgets(t *testing.T) {
	var b paused
	key := func(i int) quorumq.ConsumerKey {
		return quorumq.ConsumerKey{SessionKey: quorumq.SessionKey{Node: "n", Epoch: 1, Session: uint64(i)}, Tag: 1}
	}
	if b.holds(key(0)) {
		t.Error("an empty set holds somebody")
	}
	for i := range minSweep {
		if got := b.suspects(); got != nil {
			t.Fatalf("%d suspects of %d", len(got), i)
		}
		b.add(key(i))
	}
	if got := b.suspects(); len(got) != minSweep {
		t.Fatalf("%d suspects, want %d", len(got), minSweep)
	}
	if got := b.suspects(); got != nil {
		t.Errorf("%d suspects again", len(got))
	}
	b.remove(key(0))
	if b.holds(key(0)) || !b.holds(key(1)) {
		t.Error("the wrong one is held back")
	}
}

// Only one Expire is on its way at a time, and a time that comes meanwhile is not lost.
func TestOneExpireAtATime(t *testing.T) {
	var x expiry
	if !x.begin(5) || x.begin(7) || x.begin(9) {
		t.Fatal("not one at a time")
	}
	if again := x.end(); again != 9 {
		t.Errorf("time %d came last, want 9", again)
	}
	if !x.begin(9) || x.end() != 0 {
		t.Error("the next one finds the first")
	}
}

// A queue that cannot hibernate is tried again when it has rested twice as long, but at least hourly.
func TestNextRest(t *testing.T) {
	for idle, want := range map[time.Duration]time.Duration{
		0:                  0,
		time.Minute:        2 * time.Minute,
		longestRestless:    2 * longestRestless,
		72 * time.Hour:     73 * time.Hour,
		1000 * time.Minute: 1060 * time.Minute,
	} {
		if got := nextRest(idle); got != want {
			t.Errorf("after a rest of %v it is tried again after %v, want %v", idle, got, want)
		}
	}
}
