package raftfsm

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/clock"
)

// A member that is elected before it knows the time takes no command until it does, and its
// stamps then go on from the newest in the log, whatever its clock shows (TTL-8).
func TestLeaderAwaitsTheTime(t *testing.T) {
	t.Parallel()
	var elapsed, now atomic.Int64 // ns
	var looks atomic.Int64
	var reliable atomic.Bool
	reliable.Store(true)
	now.Store(int64(100 * time.Hour))
	tick := func() { // so that the test needs no real time
		elapsed.Add(int64(time.Second))
		now.Add(int64(time.Second))
	}
	c := newCluster(t, 1, func(_ *member, config *Config[reply, string]) {
		config.Clock = func() clock.Moment {
			looks.Add(1)
			return clock.Moment{Elapsed: time.Duration(elapsed.Load()), Time: time.Duration(now.Load()), Reliable: reliable.Load()}
		}
	})
	m := c.members[0]
	stamp := func() time.Duration {
		t.Helper()
		var ms int64
		m.group.Read(func() { ms = m.machine.Now() })
		return time.Duration(ms) * time.Millisecond
	}
	c.propose("a")
	if got := stamp(); got != 100*time.Hour {
		t.Fatalf("stamped %v", got)
	}
	c.close(m)
	reliable.Store(false)
	c.open(m)
	until(t, "it is elected", func() bool { return m.group.State() == raft.Leader })
	looksMore := func() {
		t.Helper()
		before := looks.Load()
		until(t, "it looks what time it is", func() bool { return looks.Load() > before+10 })
	}
	looksMore() // a step that began before the election may still refuse what comes
	answered := make(chan error, 1)
	m.group.Submit(Command{Header: []byte("b")}, func(_ reply, err error) { answered <- err })
	looksMore()
	if m.group.Leading() || len(answered) > 0 || stamp() != 100*time.Hour {
		t.Error("it leads although nobody knows what time it is")
	}
	now.Store(int64(99 * time.Hour)) // a leader of the past was ahead
	reliable.Store(true)
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	if got := stamp(); got != 100*time.Hour {
		t.Errorf("stamped %v after 100h0m0s", got)
	}
	for range 200 {
		tick()
	}
	c.propose("c")
	if got, want := stamp(), 100*time.Hour+199*time.Second; got != want {
		t.Errorf("stamped %v 200 s later, want %v", got, want)
	}
	now.Add(int64(3 * time.Hour)) // for which nobody led, say
	c.propose("d")
	if got := stamp(); got != time.Duration(now.Load()) {
		t.Errorf("stamped %v, want %v", got, time.Duration(now.Load()))
	}
}
