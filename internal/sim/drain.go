package sim

import (
	"math"

	"github.com/quorate/quorate/quorumq"
)

// Bounds of the last part of a run.
const (
	maxPasses = 1500 // in which nothing more is done with
	maxHealed = 30000
	passMs    = 40
)

// drain heals everything and lets all clients work until nothing is left to do; then it
// takes stock.
func (w *world) drain() {
	w.heal()
	done, last := w.done(), 0 // and the pass in which that grew last
	for pass := 0; w.broken == nil; pass++ {
		w.pass()
		if w.idle() {
			break
		}
		if n := w.done(); n > done {
			done, last = n, pass
		}
		if pass-last == maxPasses || pass == maxHealed {
			w.stuck()
		}
	}
	if w.broken == nil {
		w.takeStock()
	}
}

// done counts the copies that need nothing more.
func (w *world) done() (n int) {
	for _, g := range w.groups {
		for s := settled; s < states; s++ {
			n += g.ledger.count[s]
		}
	}
	return n
}

// heal ends all faults.
func (w *world) heal() {
	w.quiet = true
	w.event("heal")
	for _, n := range w.nodes {
		if !n.up {
			n.restart()
		}
	}
	for a := range members {
		for b := range members {
			w.pairs[a][b].downUntil = 0
		}
	}
	w.healClocks()
	for place := range queueNames {
		if w.alive(place) == nil {
			w.remake(place)
		}
		w.bindAll(place)
		if w.swarm.rules {
			w.setRule(place, w.standing(place))
		}
	}
	for n := range w.nodes {
		w.prove(w.nodes[n])
	}
	for _, g := range w.groups {
		if g.deleted {
			continue
		}
		if g.leader < 0 {
			g.someLeader()
		}
		for _, n := range w.nodes {
			g.proposeHere(&quorumq.NodeUp{Node: n.name, Epoch: n.epoch})
		}
		c := g.ledger.config
		c.ConsumerTimeoutMs = 0                                                           // else a short one takes back all, again and again
		if w.swarm.cycle || w.swarm.moves > 0 || w.swarm.rules || w.swarm.transacts > 0 { // full queues that wait for one another in a ring would wait for ever
			c.MaxLength, c.MaxLengthBytes, c.MaxLengthTotal, c.BacklogLimit = quorumq.Unlimited, quorumq.Unlimited, quorumq.Unlimited, math.MaxInt64
		}
		g.proposeHere(&quorumq.Configure{Config: c})
	}
}

// pass lets everything take a step.
func (w *world) pass() {
	w.now += passMs
	w.heartbeats()
	for _, g := range w.groups {
		if !g.deleted {
			w.passGroup(g)
		}
	}
	for _, p := range w.producers {
		if p.node < 0 {
			p.connect()
		}
	}
	for _, c := range w.consumers {
		c.attach()
		c.decide()
	}
	for _, t := range w.open() {
		t.try()
	}
	for w.onWay > 0 && w.broken == nil {
		w.carry()
	}
}

// passGroup gives a queue what it needs to come to rest: followers catch up, gateways send, timers run,
// entries commit.
func (w *world) passGroup(g *group) {
	for i := range g.reps {
		r := g.reps[i]
		if i != g.leader {
			r.catchUp(uint64(len(g.log)))
			r.learn(g.leader, g.term)
		}
		if r.fwd != nil {
			r.fwd.step()
		}
		if e := w.nodes[i].ends[g]; e != nil {
			e.pump()
		}
	}
	w.timers(g)
	g.commit(len(g.pending))
}

// idle reports whether nothing is left to do.
func (w *world) idle() bool {
	for _, g := range w.groups {
		if !g.deleted && !w.idleGroup(g) {
			return false
		}
	}
	for _, p := range w.producers {
		if len(p.pending) > 0 {
			return false
		}
	}
	return len(w.open()) == 0
}

// idleGroup reports whether nothing is left that could still move.
func (w *world) idleGroup(g *group) bool {
	l := g.ledger
	if len(g.pending) > 0 || l.count[ready] > 0 || l.count[assigned] > 0 {
		return false
	}
	for _, n := range w.nodes {
		if e := n.ends[g]; e != nil && (e.pub.Pending() > 0 || len(e.ops) > 0) {
			return false
		}
	}
	for _, d := range g.truth.q.Backlog(nil, 0, l.count[backlog]) {
		if r := w.route(w.catalog.View(), g, &d); !r.cyclic && !r.lost && !r.kept && (d.To != nil || len(w.targetsOf(g.place)) > 0) {
			return false
		}
	}
	return true
}

// stuck reports what does not get done.
func (w *world) stuck() {
	for _, p := range w.producers {
		if len(p.pending) > 0 {
			w.broke("drained", "message %d gets no answer", p.pending[0].msg)
		}
	}
	for _, t := range w.open() {
		w.broke("drained", "a transaction of session %d gets no answer after %d tries", t.key.Session, t.tries)
	}
	for _, g := range w.groups {
		if l := g.ledger; !g.deleted && !w.idleGroup(g) {
			o := g.truth.q.Overview()
			w.broke("drained", "queue %s keeps %d ready, %d unsettled, %d in its backlog, %d consumers, %d of them late", g.name, l.count[ready],
				l.count[assigned], l.count[backlog], o.Consumers, len(l.deadlines.late))
		}
	}
}

// takeStock: every message that was confirmed is accounted for, every copy went one way.
func (w *world) takeStock() {
	for i := range w.msgs {
		m := &w.msgs[i]
		switch {
		case !m.answered && !m.unknown:
			w.broke("answers", "message %d has no answer", i)
		case m.answered && m.accepted != (m.stored == 1):
			w.broke("confirmed", "message %d: accepted %t, stored %d times", i, m.accepted, m.stored)
		}
	}
	for _, g := range w.groups {
		if g.deleted {
			continue
		}
		for n := range members {
			g.compare(n)
		}
		g.ledger.compareCounts()
		g.ledger.takeStock()
	}
}

// takeStock finds bodies and annotations that are kept though nothing refers to them.
func (l *ledger) takeStock() {
	for ref, n := range l.notes {
		if n == 0 {
			l.broke("leaked", "annotations %v are not released", ref)
		}
	}
	for ref, c := range l.copies {
		if c.released != (c.state != backlog) {
			l.broke("leaked", "body %v is in state %d, released %t", ref, c.state, c.released)
		}
	}
}
