package sim

import (
	"bytes"
	"slices"

	"github.com/quorate/quorate/clock"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// entry is a committed command.
type entry struct {
	term   uint64
	lead   int // the node of a Lead command, else -1
	header []byte
	bodies [][]byte
	now    quorumq.Time
	truth  int64 // the true time then, ms
	unsure bool  // its proposer must not have known the time
	// restores counts the restarts of the whole group before it; planted faults forget then.
	restores uint64
}

// proposal is a command that a leader has not committed yet.
type proposal struct {
	entry
	done func(callResult) // nil: nobody waits
}

// callResult is what a question came to.
type callResult struct {
	err   failure
	hint  int // who leads, with notLeader; -1: not known
	reply quorumq.Reply
	held  []quorumq.Delivery // of a resume
	known bool
}

// failure is why a command was not answered.
type failure uint8

const (
	ok failure = iota
	notLeader
	unknownOutcome
	noSuchQueue
)

// replica is a member of a group.
type replica struct {
	g       *group
	node    *node
	m       *machine
	applied uint64

	snapshot   []byte // the newest one
	snapshotAt uint64

	known    int    // who leads, as it knows; -1: not known
	believes bool   // it thinks that it leads, in term
	term     uint64 // of its leadership
	leads    bool   // its Lead command is applied: it acts on effects
	orphans  []proposal
	timer    quorumq.Time
	clock    clock.Queue // the queue's time, of its leadership
	fwd      *forwarder
}

// group is a queue: an ideal log, its members, and the machine that the ledger watches.
type group struct {
	w       *world
	uid     id.QueueUID
	name    string
	place   int // in the chain
	madeAt  int64
	deleted bool

	log     []entry
	pending []proposal // of the leader
	leader  int        // -1: none
	term    uint64
	reps    [members]*replica
	truth   *machine
	ledger  *ledger

	passing  passing
	restores uint64
	unused   bool // its leader is to delete it (QX-1)
}

// newGroup makes a member on each node, and the machine that the ledger is checked against.
func newGroup(w *world, uid id.QueueUID, place int) *group {
	c := w.swarm.queues[place]
	g := &group{w: w, uid: uid, name: queueNames[place], place: place, madeAt: w.now, leader: -1}
	g.truth = &machine{w: w, q: quorumq.New(uid, c)}
	g.ledger = newLedger(g, c)
	for i := range g.reps {
		m := &machine{w: w, q: quorumq.New(uid, c)}
		g.reps[i] = &replica{g: g, node: w.nodes[i], m: m, known: -1, snapshot: m.q.AppendSnapshot(nil)}
	}
	return g
}

// propose hands a command to a member.
func (r *replica) propose(c []byte, bodies [][]byte, done func(callResult)) {
	g := r.g
	if done == nil {
		done = func(callResult) {}
	}
	p := proposal{entry: entry{term: r.term, lead: -1, header: c, bodies: bodies}, done: done}
	switch {
	case g.deleted:
		done(callResult{err: noSuchQueue})
	case !r.believes:
		done(callResult{err: notLeader, hint: r.known})
	case g.leader == r.node.idx && g.term == r.term:
		r.stamp(&p.entry)
		g.pending = append(g.pending, p)
	default:
		r.orphans = append(r.orphans, p)
	}
}

// commit commits the leader's first n proposals and answers them.
func (g *group) commit(n int) {
	if g.leader < 0 {
		return
	}
	r := g.reps[g.leader]
	for ; n > 0 && len(g.pending) > 0 && g.w.broken == nil; n-- {
		p := g.pending[0]
		g.pending = slices.Delete(g.pending, 0, 1)
		g.append(&p.entry)
		reply := r.catchUp(uint64(len(g.log)))
		if p.done != nil {
			p.done(callResult{reply: reply})
		}
	}
}

// append puts an entry into the log for good. The ledger sees it here.
func (g *group) append(e *entry) {
	e.restores = g.restores
	g.log = append(g.log, *e)
	index := uint64(len(g.log))
	g.w.result.Commands++
	g.w.trace.bytes(e.header)
	g.w.event("commit queue index kind leader", int64(g.uid), int64(index), int64(e.header[1]), int64(g.leader))
	c, r, eff := g.truth.apply(index, e)
	if g.w.broken == nil {
		g.ledger.observe(index, e, c, r, eff)
		g.judgeTime(e)
	}
}

// catchUp applies entries up to index and returns the last one's reply, which is the
// caller's to keep.
func (r *replica) catchUp(index uint64) quorumq.Reply {
	var reply quorumq.Reply
	for r.applied < index && r.g.w.broken == nil {
		e := &r.g.log[r.applied]
		r.applied++
		_, rep, eff := r.m.apply(r.applied, e)
		if e.lead >= 0 {
			r.heard(e)
		}
		if r.leads || r.g.w.cfg.Fault == FaultEarlyEffects && r.believes {
			r.act(eff)
		}
		reply = rep
	}
	reply.Refused = slices.Clone(reply.Refused)
	if reply.Delivery != nil {
		d := *reply.Delivery
		reply.Delivery = &d
	}
	return reply
}

// heard handles a Lead command.
func (r *replica) heard(e *entry) {
	if r.believes && e.lead == r.node.idx && e.term == r.term {
		r.leads = true
		r.fwd = newForwarder(r)
	}
	if !r.believes || e.term >= r.term {
		r.learn(e.lead, e.term)
	}
}

// learn handles who leads in a term: an older leadership of this member ends.
func (r *replica) learn(leader int, term uint64) {
	if r.believes && (leader != r.node.idx || term > r.term) {
		r.cease()
	}
	if r.known != leader {
		r.known = leader
		if e := r.node.ends[r.g]; e != nil && r.node.up {
			e.led(leader)
		}
	}
}

// cease ends a leadership; what waited has an unknown outcome.
func (r *replica) cease() {
	r.believes, r.leads, r.timer, r.fwd = false, false, 0, nil
	orphans := r.orphans
	r.orphans = nil
	for i := range orphans {
		if orphans[i].done != nil {
			orphans[i].done(callResult{err: unknownOutcome})
		}
	}
}

// elect makes a node the leader. Of what the leader before had not committed, a prefix is committed nevertheless;
// nobody is notified.
func (g *group) elect(n int) {
	w := g.w
	if !w.nodes[n].knowsTime() {
		return
	}
	w.result.Elects++
	w.event("elect queue node term", int64(g.uid), int64(n), int64(g.term+1))
	kept := w.rng.IntN(len(g.pending) + 1)
	for i := range kept {
		g.append(&g.pending[i].entry)
	}
	lost := g.pending
	g.pending = nil
	if old := g.leader; old >= 0 {
		g.reps[old].orphans = append(g.reps[old].orphans, lost...)
		if old == n || w.rng.IntN(2) == 0 {
			g.reps[old].cease()
		}
	}
	g.term++
	g.leader = n
	r := g.reps[n]
	if r.believes { // of an earlier term, whose end it had not heard of
		r.cease()
	}
	r.believes, r.term, r.leads = true, g.term, false
	r.lead()
	lead := &quorumq.Lead{Node: w.nodes[n].name, Term: g.term}
	p := proposal{entry: entry{term: g.term, lead: n, header: quorumq.AppendCommand(nil, lead)}}
	r.stamp(&p.entry)
	g.pending = append(g.pending, p)
}

// someLeader elects any node that is up.
func (g *group) someLeader() {
	if n := g.w.someNode(); n >= 0 {
		g.elect(n)
	}
}

// follow lets a member that does not lead advance in the log, by entries or by a snapshot.
func (g *group) follow(n int) {
	r := g.reps[n]
	if !r.node.up || g.leader == n {
		return
	}
	behind := len(g.log) - int(r.applied)
	switch w := g.w; {
	case behind > 0 && w.rng.IntN(10) == 0:
		w.event("install queue node index", int64(g.uid), int64(n), int64(len(g.log)))
		r.snapshot, r.snapshotAt = g.truth.q.AppendSnapshot(nil), uint64(len(g.log))
		r.m.restore(r.snapshot)
		r.applied = r.snapshotAt
		r.learn(g.leader, g.term)
	case behind > 0:
		r.catchUp(r.applied + 1 + w.rng.Uint64N(uint64(behind)))
	case w.rng.IntN(3) == 0:
		r.learn(g.leader, g.term)
	}
}

// crashed is the end of a member's process: it starts again from its newest snapshot.
func (g *group) crashed(n int) {
	r := g.reps[n]
	r.believes, r.leads, r.timer, r.fwd, r.orphans, r.known = false, false, 0, nil, nil, -1
	if g.leader == n {
		g.leader = -1
		for i := range g.pending {
			g.pending[i].done = nil
		}
	}
	r.m.restore(r.snapshot)
	r.applied = r.snapshotAt
}

// keep makes a member's snapshot.
func (r *replica) keep() {
	r.snapshot, r.snapshotAt = r.m.q.AppendSnapshot(nil), r.applied
}

// compare holds a member's state against the one that the ledger watches.
func (g *group) compare(n int) {
	r := g.reps[n]
	if int(r.applied) != len(g.log) {
		return
	}
	want, got := g.truth.q.AppendSnapshot(nil), r.m.q.AppendSnapshot(nil)
	g.w.trace.bytes(got)
	if !bytes.Equal(want, got) {
		g.w.broke("replicas", "queue %s: member %d has another state than the others at index %d", g.name, n, r.applied)
	}
}

// restoreAll puts the machine that the ledger watches through a snapshot, as when all
// members restart; the members have snapshots of their own.
func (g *group) restoreAll() {
	g.w.event("restore queue index", int64(g.uid), int64(len(g.log)))
	g.truth.restore(g.truth.q.AppendSnapshot(nil))
	g.restores++
}

// body returns a stored body: its tag and the message's stored form.
func (g *group) body(ref quorumq.BodyRef) (tag, []byte) {
	b := g.log[ref.Index-1].bodies[ref.Slot]
	return tagOf(b), b[tagBytes:]
}
