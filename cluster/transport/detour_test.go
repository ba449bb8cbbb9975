package transport

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// trio is three nodes, the first two of which reach each other through relays only.
type trio struct {
	a, b, c *node
	relays  [2]*relay
}

func newTrio(t *testing.T, change func(*Config)) *trio {
	t.Helper()
	var nodes [3]*node
	for i, name := range []string{"a", "b", "c"} {
		c := testConfig(name, 1)
		c.HeartbeatEvery, c.DetourAfter, c.DetourBack = 50*time.Millisecond, 200*time.Millisecond, 100*time.Millisecond
		c.PingTimeout = time.Second
		if change != nil {
			change(&c)
		}
		nodes[i] = start(t, c)
	}
	w := &trio{a: nodes[0], b: nodes[1], c: nodes[2]}
	meet(w.a, w.c)
	meet(w.b, w.c)
	w.relays = [2]*relay{newRelay(t, w.b.address), newRelay(t, w.a.address)}
	w.a.SetPeer("b", w.relays[0].address)
	w.b.SetPeer("a", w.relays[1].address)
	for _, x := range nodes {
		for _, y := range nodes {
			if x != y {
				w.direct(t, x, y)
			}
		}
	}
	return w
}

func way(n *node, to id.NodeID) (through id.NodeID, up bool) {
	for _, p := range n.Stats().Peers {
		if p.Node == to {
			return p.Through, p.Up
		}
	}
	return "", false
}

func (w *trio) direct(t *testing.T, from, to *node) {
	t.Helper()
	until(t, fmt.Sprintf("%s reaches %s directly", from.config.Node, to.config.Node), func() bool {
		through, up := way(from, to.config.Node)
		return up && through == ""
	})
}

// cut freezes both ways between a and b, and waits until both go around.
func (w *trio) cut(t *testing.T) {
	t.Helper()
	for _, r := range w.relays {
		r.freeze()
	}
	for _, ends := range [][2]*node{{w.a, w.b}, {w.b, w.a}} {
		until(t, fmt.Sprintf("%s reaches %s through c", ends[0].config.Node, ends[1].config.Node), func() bool {
			through, up := way(ends[0], ends[1].config.Node)
			return up && through == "c"
		})
	}
}

// echo sends frames from a to b, which come back in order. They are lost with their connection, which
// a busy machine may lose: then they are sent again.
func (w *trio) echo(t *testing.T) {
	t.Helper()
	const frames = 20
	until(t, "all frames came back", func() bool {
		before, _ := w.a.recorder.count()
		connects := w.a.Stats().Peers[0].Connects
		for i := range uint64(frames) {
			f := &nodev1.Frame{Kind: &nodev1.Frame_QueueCommand{QueueCommand: &nodev1.QueueCommand{
				Request: i + 1, Header: []byte("x"), Bodies: [][]byte{make([]byte, 3*forwardBytes)},
			}}}
			if w.a.Send("b", f) != nil {
				return false
			}
		}
		until(t, "all frames came back, or their connection is lost", func() bool {
			answers, _ := w.a.recorder.count()
			return answers-before == frames || w.a.Stats().Peers[0].Connects != connects
		})
		w.a.recorder.mu.Lock()
		defer w.a.recorder.mu.Unlock()
		for i, f := range w.a.recorder.answers[before:] {
			if n := f.GetQueueCommand().GetRequest(); n != uint64(i+1) {
				t.Fatalf("frame %d has number %d", i, n)
			}
		}
		return len(w.a.recorder.answers)-before == frames
	})
}

// Two nodes that do not reach one another talk through the third, heartbeats and calls included, and
// directly again when they can.
func TestDetour(t *testing.T) {
	t.Cleanup(func() { noneLeft(t) })
	w := newTrio(t, nil)
	w.cut(t)
	until(t, "heartbeats go both ways", func() bool {
		x, up := w.a.Silent("b")
		y, also := w.b.Silent("a")
		return up && also && x < 100*time.Millisecond && y < 100*time.Millisecond
	})
	w.b.recorder.mu.Lock()
	w.b.recorder.request = func(_ Peer, f *nodev1.Frame, reply func(*nodev1.Frame) error) {
		_ = reply(f) // what does not come back is missed below
	}
	w.b.recorder.mu.Unlock()
	w.echo(t)
	for _, r := range w.relays {
		r.thaw()
	}
	w.direct(t, w.a, w.b)
	w.direct(t, w.b, w.a)
	w.echo(t)
	until(t, "c passes nothing on any more", func() bool { return w.c.Stats().Detours == 0 })
}

// A detour needs a node that has a direct way itself: when that is lost, so is the detour, and
// no way goes around twice.
func TestDetourEnds(t *testing.T) {
	w := newTrio(t, nil)
	w.cut(t)
	w.c.stop(t)
	until(t, "a has no way to b", func() bool { _, up := way(w.a, "b"); return !up })
	until(t, "b has no way to a", func() bool { _, up := way(w.b, "a"); return !up })
	if _, err := w.a.openFor(t.Context(), "b", "c"); err == nil {
		t.Error("a passes connections on to c, which is gone")
	}
}

// A node passes on so many connections and no more, and others again once there is room.
func TestDetourLimit(t *testing.T) {
	w := newTrio(t, nil)
	w.c.detours.Store(maxDetours)
	for _, r := range w.relays {
		r.freeze()
	}
	until(t, "the connection is given up", func() bool { _, up := way(w.a, "b"); return !up })
	w.c.detours.Store(0)
	w.cut(t)
	if n := w.c.Stats().Detours; n < 1 || n > maxDetours {
		t.Errorf("%d connections are passed on", n)
	}
}
