package storesim

import (
	"slices"

	"github.com/quorate/quorate/catalog"
)

// propose appends a command at the catalog's leader. done gets the reply, unless the leader
// or the asking process ends before.
func (n *node) propose(from *node, c catalog.Command, done func(catalog.Reply)) {
	r, m := n.leads(catalogGroup)
	m.log = append(m.log, entry{term: r.term, command: c})
	n.waits = append(n.waits, waiting{index: m.last(), term: r.term, from: from, life: from.life, done: done})
}

// proposeAnywhere gives a command to a leader of the catalog that this node reaches; false without one.
func (n *node) proposeAnywhere(c catalog.Command, done func(catalog.Reply)) bool {
	for _, i := range n.w.rng.Perm(nodes) {
		p := n.w.nodes[i]
		if r, _ := p.leads(catalogGroup); r != nil && (p == n || n.w.linked(n, p)) {
			p.propose(n, c, done)
			return true
		}
	}
	return false
}

// apply carries out some of what is committed.
func (n *node) apply() {
	m := n.disk.members[catalogGroup]
	if !n.up || m == nil {
		return
	}
	upTo := min(n.commit[catalogGroup], m.last())
	if !n.w.quiet && upTo > n.applied {
		upTo = n.applied + 1 + n.w.rng.Uint64N(upTo-n.applied)
	}
	for n.applied < upTo {
		e := &m.log[n.applied]
		n.applied++
		var r catalog.Reply
		if e.command != nil {
			r = n.catalog.Apply(n.applied, 0, e.command)
		}
		n.answer(n.applied, e.term, r)
	}
}

// answer notifies those that wait for an entry of its outcome.
func (n *node) answer(index, term uint64, r catalog.Reply) {
	n.waits = slices.DeleteFunc(n.waits, func(w waiting) bool {
		if w.index != index {
			return false
		}
		if w.term == term && w.from.up && w.from.life == w.life {
			w.done(r)
		}
		return true
	})
}
