package sim

import (
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// node is a process: a gateway for clients, and a member of every group.
type node struct {
	w        *world
	idx      int
	name     id.NodeID
	up       bool
	upAt     int64 // when a crashed one comes back, ms
	epoch    id.Epoch
	skew     int64
	clocks   clocks // if the swarm has clocks
	view     *catalog.View
	stored   stored          // if views lag
	ends     map[*group]*end // never ranged over
	sessions uint64
}

// clock is the node's own time.
func (n *node) clock() quorumq.Time { return quorumq.Time(n.w.now + n.skew) }

// end returns the gateway's end of a queue.
func (n *node) end(g *group) *end {
	e := n.ends[g]
	if e == nil {
		e = newEnd(n, g)
		n.ends[g] = e
	}
	return e
}

// lostLink lets the gateway turn to another leader, as it does when a connection breaks.
func (n *node) lostLink(to int) {
	if !n.up {
		return
	}
	for _, g := range n.w.groups {
		if e := n.ends[g]; e != nil && e.target == to {
			e.retry(-1)
		}
	}
}

// crash ends the process: what it held in memory is gone, its clients lose their
// connection, its members keep their log and newest snapshot.
func (n *node) crash() {
	w := n.w
	w.result.Crashes++
	w.event("crash node epoch", int64(n.idx), int64(n.epoch))
	n.up = false
	n.upAt = w.now + w.rng.Int64N(800)
	for o := range members {
		w.breakPair(n.idx, o, 0)
	}
	n.ends = make(map[*group]*end)
	for _, g := range w.groups {
		if !g.deleted {
			g.crashed(n.idx)
		}
	}
	for _, p := range w.producers {
		if p.node == n.idx {
			p.reconnect()
		}
	}
	for _, c := range w.consumers {
		if c.node == n.idx {
			c.lost()
		}
	}
}

// restart brings the process back with a higher epoch.
func (n *node) restart() {
	n.w.event("restart node", int64(n.idx))
	n.up = true
	n.epoch++
	n.sessions = 0
	if n.w.swarm.clocks {
		n.restartClocks()
	}
	n.restartView()
}

// serving returns a node that takes clients, -1 if it finds none.
func (w *world) serving() int {
	if n := w.someNode(); n >= 0 && w.nodes[n].serves() {
		return n
	}
	return -1
}

// someNode returns a node that is up, or -1.
func (w *world) someNode() int {
	at := w.rng.IntN(members)
	for i := range members {
		if n := (at + i) % members; w.nodes[n].up {
			return n
		}
	}
	return -1
}
