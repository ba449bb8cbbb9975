package quorumq

import (
	"maps"
	"slices"

	"github.com/quorate/quorate/id"
)

// nodes is what a queue remembers about nodes that have enqueued or consumed here. They stay, to
// fence off old processes: only the newest process of a node may send commands.
//
// Invariants, see check: suspects counts the suspected nodes; only those have a deadline. A session
// that a node has closed is not open.
type nodes struct {
	byID     map[id.NodeID]*node
	suspects int
}

// node is one of them, in its newest epoch.
type node struct {
	id    id.NodeID
	epoch id.Epoch
	enqueuer
	// closed are the sessions of this epoch that were closed, in that order. A Checkout or Get that
	// arrives late does not open them again.
	closed    []uint64
	suspected bool
	deadline  Time // when a suspected node's sessions end (DC-1)
}

// MaxClosedSessions limits the closed sessions remembered for each node; above it the one closed
// first is forgotten.
const MaxClosedSessions = 128

// close remembers that a session was closed.
func (n *node) close(session uint64) {
	if n.hasClosed(session) {
		return
	}
	if len(n.closed) == MaxClosedSessions {
		n.closed = slices.Delete(n.closed, 0, 1)
	}
	n.closed = append(n.closed, session)
}

// hasClosed reports whether a session is remembered as closed.
func (n *node) hasClosed(session uint64) bool { return slices.Contains(n.closed, session) }

// renew begins the node's next epoch.
func (n *node) renew(epoch id.Epoch) {
	n.epoch, n.enqueuer, n.closed = epoch, enqueuer{next: 1}, nil
}

// of returns the node with this name. If it is not known, of creates it with this epoch.
func (ns *nodes) of(name id.NodeID, epoch id.Epoch) *node {
	n := ns.byID[name]
	if n == nil {
		n = &node{id: name, epoch: epoch, enqueuer: enqueuer{next: 1}}
		ns.byID[name] = n
	}
	return n
}

// suspect marks a node as suspected until a deadline, which must not be 0.
func (ns *nodes) suspect(n *node, deadline Time) {
	n.suspected, n.deadline = true, deadline
	ns.suspects++
}

// clear ends a suspicion, and reports whether there was one.
func (ns *nodes) clear(n *node) bool {
	if !n.suspected {
		return false
	}
	n.suspected, n.deadline = false, 0
	ns.suspects--
	return true
}

// nextDeadline returns the earliest deadline of a suspected node, or 0 if no node is suspected.
func (ns *nodes) nextDeadline() Time {
	first := Time(0)
	if ns.suspects == 0 {
		return first
	}
	for _, n := range ns.byID {
		if n.suspected && (first == 0 || n.deadline < first) {
			first = n.deadline
		}
	}
	return first
}

// clearLate ends the suspicions whose deadline has come.
func (ns *nodes) clearLate(now Time) {
	for _, n := range ns.byID {
		if n.lateAt(now) {
			ns.clear(n)
		}
	}
}

// lateAt reports whether the deadline of a suspected node has come, so that its sessions must end.
func (n *node) lateAt(now Time) bool { return n.suspected && n.deadline <= now }

// enqueuers returns how many nodes have enqueued.
func (ns *nodes) enqueuers() (count int) {
	for _, n := range ns.byID {
		if n.next > 1 {
			count++
		}
	}
	return count
}

// put writes all nodes, in ascending order.
func (ns *nodes) put(b []byte) []byte {
	b = putU(b, uint64(len(ns.byID)))
	for _, name := range slices.Sorted(maps.Keys(ns.byID)) {
		n := ns.byID[name]
		b = putU(putNode(b, name), uint64(n.epoch))
		b = putU(b, uint64(n.next))
		b = putBool(b, n.suspected)
		if n.suspected {
			b = putU(b, uint64(n.deadline))
		}
		b = n.putRefused(b)
		b = putU(b, uint64(len(n.closed)))
		for _, s := range n.closed {
			b = putU(b, s)
		}
	}
	return b
}

// restore reads the nodes from a snapshot.
func (ns *nodes) restore(r *reader) {
	last := id.NodeID("")
	for range r.count(7) {
		n := &node{id: r.node(), epoch: id.Epoch(r.u()), enqueuer: enqueuer{next: Seq(r.u())}, suspected: r.bool()}
		r.check(n.id > last, errUnordered)
		r.check(n.next > 0, errZero)
		if n.suspected {
			n.deadline = Time(r.i())
			ns.suspects++
		}
		n.restoreRefused(r)
		closed := r.count(1)
		r.check(closed <= MaxClosedSessions, errRange)
		for range closed {
			s := r.u()
			r.check(!slices.Contains(n.closed, s), errUnordered)
			n.closed = append(n.closed, s)
		}
		if r.err != nil {
			return
		}
		ns.byID[n.id] = n
		last = n.id
	}
}

// check returns an inconsistency, if there is one.
func (ns *nodes) check() error {
	suspects := 0
	for _, n := range ns.byID {
		if n.suspected {
			suspects++
		}
		if !n.check() {
			return inv("node %q refused %v, next %d", n.id, n.refused, n.next)
		}
	}
	if suspects != ns.suspects {
		return inv("%d suspected nodes, counted %d", suspects, ns.suspects)
	}
	return nil
}
