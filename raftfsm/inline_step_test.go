package raftfsm

import (
	"strings"
	"testing"
)

// The entry of a command that finds nothing on its way is with raft when Submit returns, without
// another goroutine. One behind others, or a large one, is left to a goroutine.
func TestInlineStep(t *testing.T) {
	t.Parallel()
	g := newCluster(t, 1, nil).leader().group
	p := &g.proposer
	until(t, "a group at rest", func() bool { return p.asked.Load() == 0 && p.idle() })
	began := 0 // signals of raft aside, of which there are none: the leader stays
	begin := p.begin
	p.begin = func() { began++; begin() }
	answered := make(chan error, 2)
	submit := func(header string, bodies ...string) {
		g.Submit(command(header, bodies...), func(_ reply, err error) { answered <- err })
	}
	for i, c := range []struct {
		name    string
		body    int
		answers int // 2: another command is on its way
		want    int // goroutines begun
	}{
		{"alone", 1, 1, 0},
		{"alone again", 1, 1, 0},
		{"beside another", 1, 2, 1},
		{"large", maxInlineBytes, 1, 1},
	} {
		began = 0
		g.mu.Lock() // nothing is applied meanwhile
		if c.answers > 1 {
			submit("before")
		}
		before := g.proposer.pendingBytes()
		submit(c.name, strings.Repeat("b", c.body))
		if g.proposer.pendingBytes() == before {
			t.Errorf("%d, %s: it was not taken", i, c.name)
		}
		if began != c.want {
			t.Errorf("%d, %s: %d goroutines have begun to make entries, want %d", i, c.name, began, c.want)
		}
		g.mu.Unlock()
		for range c.answers {
			if err := <-answered; err != nil {
				t.Error(err)
			}
		}
		until(t, "a group at rest", func() bool { return p.asked.Load() == 0 && p.idle() })
	}
}
