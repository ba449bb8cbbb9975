package transport

import (
	"strings"
	"testing"
)

// Two nodes with one id do not take turns: the first that came keeps its connections, whichever
// end opened them.
func TestSecondProcessOfANode(t *testing.T) {
	const want = `node id "n2" is used by two processes`
	for _, c := range []struct {
		name  string
		first func(t *testing.T, a, first *node)
		later func(a, first, second *node) *Mux
	}{
		{
			name:  "the first one has connections both ways",
			first: func(t *testing.T, a, b *node) { meet(a, b); connected(t, a, b); connected(t, b, a) },
			later: func(a, _, second *node) *Mux { second.SetPeer("n1", a.address); return second.Mux },
		},
		{
			name:  "the first one was called",
			first: func(t *testing.T, a, b *node) { a.SetPeer("n2", b.address); connected(t, a, b) },
			later: func(a, _, second *node) *Mux { second.SetPeer("n1", a.address); return second.Mux },
		},
		{
			name:  "the first one called",
			first: func(t *testing.T, a, b *node) { b.SetPeer("n1", a.address); connected(t, b, a) },
			later: func(a, _, second *node) *Mux { a.SetPeer("n2", second.address); return a.Mux },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b, second := start(t, testConfig("n1", 1)), start(t, testConfig("n2", 1)), start(t, testConfig("n2", 1))
			c.first(t, a, b)
			refused := c.later(a, b, second)
			until(t, "it was refused three times", func() bool { return refused.Stats().Peers[0].Failures >= 3 })
			if s := refused.Stats().Peers[0]; !strings.Contains(s.LastError, want) || s.Up {
				t.Errorf("up %v, failed with\n%s\nwant\n%s", s.Up, s.LastError, want)
			}
			for _, n := range []*node{a, b} {
				for _, s := range n.Stats().Peers {
					if n.Mux != refused && (!s.Up || s.Connects != 1) {
						t.Errorf("connection of the first one from %s: up %v, connected %d times, want once", n.config.Node, s.Up, s.Connects)
					}
				}
			}
		})
	}
}

// A second process of an id is heard once the first one is gone.
func TestSecondProcessAfterTheFirst(t *testing.T) {
	a, b, second := start(t, testConfig("n1", 1)), start(t, testConfig("n2", 1)), start(t, testConfig("n2", 1))
	meet(a, b)
	connected(t, a, b)
	connected(t, b, a)
	second.SetPeer("n1", a.address)
	until(t, "it was refused", func() bool { return second.Stats().Peers[0].Failures > 0 })
	b.stop(t)
	connected(t, second, a)
	a.SetPeer("n2", second.address)
	connected(t, a, second)
}
