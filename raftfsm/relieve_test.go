package raftfsm

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

// What a snapshot would let go of is judged by the bytes that the machine holds.
func TestWeigh(t *testing.T) {
	for _, x := range []struct {
		what           string
		last           footprint
		since, held    uint64
		needed, excess int64
	}{
		{"nothing yet", footprint{}, 0, 0, 0, 0},
		{"small messages came: their entries are larger", footprint{}, 1000, 400, 800, 200},
		{"large ones", footprint{}, 1000, 990, 1000, 0},
		{"they came and went", footprint{}, 1000, 0, 0, 1000},
		{"nothing has changed", footprint{machine: 10, log: 1000, held: 900}, 0, 900, 1010, 0},
		{"half has gone", footprint{machine: 10, log: 1000, held: 900}, 50, 450, 510, 550},
		{"all has gone", footprint{machine: 10, log: 1000, held: 900}, 50, 0, 10, 1050},
		{"as much came as went", footprint{machine: 10, log: 1000, held: 900}, 1000, 900, 1010, 1000},
	} {
		var c compaction
		c.last.Store(&x.last)
		c.bytes.Store(x.since)
		if needed, excess := c.weigh(x.held); needed != x.needed || excess != x.excess {
			t.Errorf("%s: %d needed, %d in excess, want %d and %d", x.what, needed, excess, x.needed, x.excess)
		}
	}
}

// Entries that make large ones older are committed one by one. Without a majority one is left waiting, however often the
// group is asked: a leader whose log had more of them than the next leader keeps could not be put right by that one's log.
func TestRelieveAddsFewEntries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newLogCluster(t, 3, func(c *Config[reply, string]) {
			c.Driven = true
			c.Scarce = func() bool { return true }
		})
		if err := all[0].group.Campaign(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := leaderOf(t, all, nil)
		large := func() {
			t.Helper()
			for i := range minTrailing {
				done := make(chan error, 1)
				body := strings.Repeat("x", 2*scarceBytes/minTrailing)
				l.group.Submit(command(fmt.Sprint("keep 0 of ", i), body), func(_ reply, err error) { done <- err })
				comes(t, "a large entry", done)
			}
		}
		large()
		before := l.group.Stats().LastIndex
		if err := l.group.Relieve(); err != nil {
			t.Fatal(err)
		}
		if s := l.group.Stats(); s.LastIndex != before+minTrailing || s.CommitIndex != s.LastIndex {
			t.Errorf("%d entries were added, committed is entry %d of %d", s.LastIndex-before, s.CommitIndex, s.LastIndex)
		}

		large()
		for _, o := range others(all, l) {
			l.transport.Disconnect(o.transport.LocalAddr())
			o.transport.Disconnect(l.transport.LocalAddr())
		}
		before = l.group.Stats().LastIndex
		for range 3 {
			if err := l.group.Relieve(); err != nil {
				t.Fatal(err)
			}
			if s := l.group.Stats(); s.LastIndex != before+1 || s.CommitIndex != before {
				t.Errorf("%d entries were added, committed is entry %d of %d", s.LastIndex-before, s.CommitIndex, s.LastIndex)
			}
		}
	})
}
