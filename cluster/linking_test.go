package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/id"
)

// A start waits for the links of all that are there, once and not for ever.
func TestLinking(t *testing.T) {
	t.Parallel()
	var away []id.NodeID
	looks := 0
	begin := time.Now()
	fresh := func() *linking {
		return &linking{missing: func() []id.NodeID { looks++; return away }}
	}
	l := fresh()
	away = []id.NodeID{"b", "c"}
	if err := l.wait(begin); err == nil || !strings.Contains(err.Error(), `["b" "c"]`) {
		t.Errorf("with two links missing: %v", err)
	}
	away = nil
	if err := l.wait(begin.Add(time.Second)); err != nil {
		t.Errorf("with all links: %v", err)
	}
	away, looks = []id.NodeID{"b"}, 0
	if err := l.wait(begin.Add(2 * time.Second)); err != nil || looks > 0 {
		t.Errorf("a link that breaks later: %v, %d looks", err, looks)
	}
	l = fresh()
	for _, after := range []time.Duration{0, linkGrace - 1} {
		if err := l.wait(begin.Add(after)); err == nil {
			t.Errorf("a start does not wait for a link after %v", after)
		}
	}
	if err := l.wait(begin.Add(linkGrace)); err != nil {
		t.Errorf("a way that is broken keeps the node out of service: %v", err)
	}
}

// A node is ready only when nobody that is there lacks a link to it; when it is, all links are up both ways.
func TestReadyWithLinks(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	n.stop("c")
	n.launch("c")
	c := n.nodes["c"]
	poll(t, "node c is ready", c.Ready)
	for _, other := range []id.NodeID{"a", "b"} {
		if _, up := c.mux.Connected(other); !up || !c.mux.CalledBy(other) {
			t.Errorf("node c is ready, and linked with %s: %t, from there: %t", other, up, c.mux.CalledBy(other))
		}
	}
	c.links = &linking{missing: func() []id.NodeID { return []id.NodeID{"b"} }}
	if err := c.Ready(); err == nil || !strings.Contains(err.Error(), `["b"]`) {
		t.Errorf("node c without a link from b: %v", err)
	}
	n.stop("b")
	poll(t, "nobody waits for a node that has gone", func() error {
		if missing := c.unlinked(); len(missing) > 0 {
			return errWaiting
		}
		return nil
	})
}
