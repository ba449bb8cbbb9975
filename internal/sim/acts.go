package sim

import "github.com/quorate/quorate/quorumq"

// act is something that may happen in a step, more or less often.
type act struct {
	weight int
	do     func()
}

// allActs are what a step chooses from: work, and the faults that the seed has.
func (w *world) allActs() []act {
	s := &w.swarm
	return []act{
		{1300, func() { w.producers[w.rng.IntN(len(w.producers))].publish() }},
		{1900, w.pumpSome},
		{s.carry, w.carry},
		{s.commits, w.commitSome},
		{900, func() { w.consumers[w.rng.IntN(len(w.consumers))].decide() }},
		{s.follow, func() { w.someGroup().follow(w.rng.IntN(members)) }},
		{500, w.forwardSome},
		{200, func() { w.timers(w.someGroup()) }},
		{200, func() { w.consumers[w.rng.IntN(len(w.consumers))].attach() }},
		{100, func() { w.look(w.rng.IntN(members)) }},
		{60, func() { w.someGroup().compare(w.rng.IntN(members)) }},
		{60, w.keepSome},
		{80, w.returnNodes},
		{s.closes, w.closeSome},
		{30, w.electMissing},
		{s.crash, w.crashSome},
		{s.breaks, func() { w.breakPair(w.rng.IntN(members), w.rng.IntN(members), w.rng.Int64N(300)) }},
		{s.elect, func() { w.someGroup().someLeader() }},
		{s.restore, func() { w.someGroup().restoreAll() }},
		{s.topology, w.changeTopology},
		{s.purge, func() { w.proposeSome(&quorumq.Purge{}) }},
		{s.suspect, w.suspectSome},
		{s.configure, w.configureSome},
		{s.void, w.voidSome},
		{s.moves, w.moveSome},
		{s.moves / 4, w.retrySome},
		{s.extends, func() { w.consumers[w.rng.IntN(len(w.consumers))].extend() }},
		{80, w.deleteUnused},
		{200 * s.transacts, w.trySome},
		{s.ruleChanges, w.changeRule},
		{s.clockSets, w.setClock},
		{s.clockSets / 4, w.pauseOne},
		{s.rests, w.rest},
		{s.proofs, func() { w.prove(w.nodes[w.viewRNG.IntN(members)]) }},
		{s.proofs / 4, w.storeView},
		{s.switches, func() { w.producers[w.rng.IntN(len(w.producers))].reconnect() }},
	}
}

// stress makes sure that a planted fault has occasions to show.
func (s *swarm) stress() {
	s.elect, s.breaks, s.restore, s.switches = max(s.elect, 40), max(s.breaks, 60), max(s.restore, 60), max(s.switches, 30)
}

// patient lets consumers have what they hold for ever.
func (s *swarm) patient() {
	s.own, s.configure = false, 0
	for i := range s.queues {
		s.queues[i].ConsumerTimeoutMs = 0
	}
}

// step lets one thing happen.
func (w *world) step() {
	w.now += w.rng.Int64N(w.swarm.maxTick)
	w.heartbeats()
	p := w.rng.IntN(w.total)
	for i := range w.acts {
		if p -= w.acts[i].weight; p < 0 {
			w.acts[i].do()
			return
		}
	}
}

// someGroup returns a queue that is there.
func (w *world) someGroup() *group {
	at := w.rng.IntN(len(queueNames))
	for i := range queueNames {
		if g := w.alive((at + i) % len(queueNames)); g != nil {
			return g
		}
	}
	w.declare(0)
	return w.groups[len(w.groups)-1]
}

// pumpSome lets a gateway of one node send what waits for a queue.
func (w *world) pumpSome() {
	if n := w.someNode(); n >= 0 {
		if e := w.nodes[n].ends[w.someGroup()]; e != nil {
			e.pump()
		}
	}
}

// commitSome commits a few entries, and elects a leader now and then where there is none.
func (w *world) commitSome() {
	g := w.someGroup()
	if g.leader < 0 && w.rng.IntN(4) == 0 {
		g.someLeader()
	}
	g.commit(1 + w.rng.IntN(6))
}

// electMissing gives each queue without a leader one that may lead.
func (w *world) electMissing() {
	for _, g := range w.groups {
		if !g.deleted && g.leader < 0 {
			g.someLeader()
		}
	}
}

// forwardSome lets a forwarder take a step, that of a leader of the past perhaps.
func (w *world) forwardSome() {
	r := w.someGroup().reps[w.rng.IntN(members)]
	if g := r.g; g.leader >= 0 && w.rng.IntN(2) == 0 {
		r = g.reps[g.leader]
	}
	if r.fwd != nil && r.node.up {
		r.fwd.step()
	}
}

// timers proposes what is due by the leaders' clocks (TTL-6).
func (w *world) timers(g *group) {
	for _, r := range g.reps {
		if r.leads && r.timer != 0 && r.time(false) >= r.timer {
			r.timer = 0
			r.propose(quorumq.AppendCommand(nil, &quorumq.Expire{}), nil, nil)
		}
	}
}

// look lets a node see the newest view.
func (w *world) look(n int) {
	if w.hearsCatalog(w.nodes[n]) {
		w.nodes[n].view = w.catalog.View()
	}
}

func (w *world) keepSome() { w.someGroup().reps[w.rng.IntN(members)].keep() }

// returnNodes starts the nodes that have been down for long enough.
func (w *world) returnNodes() {
	for _, n := range w.nodes {
		if !n.up && n.upAt <= w.now {
			n.restart()
		}
	}
}

// closeSome closes a consumer, which its client opens again later.
func (w *world) closeSome() {
	if c := w.consumers[w.rng.IntN(len(w.consumers))]; c.node >= 0 {
		c.close()
	}
}

// crashSome takes a node down with all that it had in memory.
func (w *world) crashSome() {
	if n := w.someNode(); n >= 0 {
		w.nodes[n].crash()
	}
}

// propose proposes a command at the leader, without waiting for the answer.
func (g *group) proposeHere(c quorumq.Command) {
	if g.leader >= 0 {
		g.reps[g.leader].propose(quorumq.AppendCommand(nil, c), nil, nil)
	}
}

// proposeSome proposes a command of no client to a queue.
func (w *world) proposeSome(c quorumq.Command) {
	g := w.someGroup()
	w.event("propose queue", int64(g.uid))
	g.proposeHere(c)
}

// suspectSome notifies a queue that a node is away, or there.
func (w *world) suspectSome() {
	n := w.nodes[w.rng.IntN(members)]
	if w.rng.IntN(2) == 0 {
		w.proposeSome(&quorumq.NodeDown{Node: n.name, Epoch: n.epoch})
		return
	}
	w.proposeSome(&quorumq.NodeUp{Node: n.name, Epoch: n.epoch})
}

// voidSome lets a gateway send an entry that changes nothing, as after a failure.
func (w *world) voidSome() {
	if n := w.someNode(); n >= 0 {
		if e := w.nodes[n].ends[w.someGroup()]; e != nil {
			e.void()
		}
	}
}

// changeTopology unbinds a target, binds it again, deletes a queue or makes it again.
func (w *world) changeTopology() {
	place := w.rng.IntN(len(queueNames))
	g := w.alive(place)
	switch p := w.rng.IntN(4); {
	case g == nil:
		w.remake(place)
	case p == 0:
		w.delete(g)
	case p == 1:
		for _, t := range w.targetsOf(place) {
			w.unbind(place, t)
		}
	default:
		w.bindAll(place)
	}
}

// remake makes a deleted queue again, and what was bound to it.
func (w *world) remake(place int) {
	w.declare(place)
	for from := range queueNames {
		w.bindAll(from)
	}
}
