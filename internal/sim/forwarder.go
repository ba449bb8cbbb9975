package sim

import (
	"slices"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/deadletter"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// forwarder hands the backlog of a queue on, in one term of its leader. deadletter's own
// one has goroutines and timers; this one keeps the same protocol in steps: route anew at
// each attempt, one Transfer at a time to each target, settle what all targets have.
type forwarder struct {
	r            *replica
	deadLetters  []*deadLetter // ascending by number
	loaded       quorumq.Seq
	targetQueues []*targetQueue // ascending by UID

	copies []quorumq.Discarded // at most once, that wait until their node's view is confirmed

	settling    int // number of the settlement under way; 0: none
	settles     int
	settleUntil int64 // ms
}

// deadLetter is a dead letter on its way.
type deadLetter struct {
	d      quorumq.Discarded
	todo   []id.QueueUID // as routed last, without those in stored
	stored []id.QueueUID
}

// targetQueue is a target.
type targetQueue struct {
	uid      id.QueueUID
	attempt  int // number of the Transfer under way; 0: none
	attempts int
	until    int64 // when it is given up, ms
	retryAt  int64
}

// How long a command of a forwarder is waited for, in ms.
const (
	minTransit    = 200
	transitSpread = 800
)

func newForwarder(r *replica) *forwarder { return &forwarder{r: r} }

// routes reports whether dead letters are routed by the node's view: it was confirmed (DL-23).
func (r *replica) routes() bool {
	return r.node.serves() || r.g.w.cfg.Fault == FaultEarlyForwarding
}

// step does what can be done now.
func (f *forwarder) step() {
	if !f.r.routes() {
		return
	}
	f.r.copies(f.copies)
	f.copies = nil
	q, w := f.r.m.q, f.r.g.w
	settled := q.BacklogSettled()
	f.deadLetters = slices.DeleteFunc(f.deadLetters, func(l *deadLetter) bool { return l.d.Seq <= settled })
	f.loaded = max(f.loaded, settled)
	room := w.swarm.forwarding - len(f.deadLetters)
	if w.quiet {
		room = 1 << 20
	}
	if room > 0 {
		for _, d := range q.Backlog(nil, f.loaded, room) {
			f.loaded = d.Seq
			f.deadLetters = append(f.deadLetters, &deadLetter{d: d})
		}
	}
	var done []quorumq.Seq
	for _, l := range f.deadLetters {
		if f.route(l) {
			done = append(done, l.d.Seq)
		}
	}
	for _, n := range f.targetQueues {
		f.send(n, settled)
	}
	f.settle(done)
}

// route finds the targets that do not have the dead letter yet (DL-23); true if it is done.
func (f *forwarder) route(l *deadLetter) bool {
	w := f.r.g.w
	to := w.route(f.r.node.view, f.r.g, &l.d)
	l.todo = l.todo[:0]
	for _, uid := range to.targets {
		if !slices.Contains(l.stored, uid) {
			l.todo = append(l.todo, uid)
			f.targetQueue(uid)
		}
	}
	return len(l.todo) == 0 && len(l.stored) > 0
}

// targetQueue keeps the targets sorted, so that a seed has one course.
func (f *forwarder) targetQueue(uid id.QueueUID) {
	i, found := slices.BinarySearchFunc(f.targetQueues, uid, func(n *targetQueue, uid id.QueueUID) int { return int(n.uid) - int(uid) })
	if !found {
		f.targetQueues = slices.Insert(f.targetQueues, i, &targetQueue{uid: uid})
	}
}

// send starts the target queue's next Transfer.
func (f *forwarder) send(n *targetQueue, settled quorumq.Seq) {
	g, w := f.r.g, f.r.g.w
	if n.attempt != 0 && w.now < n.until || w.now < n.retryAt && !w.quiet {
		return
	}
	n.attempt = 0
	target := w.byUID[n.uid]
	t := &quorumq.Transfer{Source: g.uid, Settled: settled}
	var bodies [][]byte
	var flying []*deadLetter
	for _, l := range f.deadLetters {
		if !slices.Contains(l.todo, n.uid) || len(flying) >= w.swarm.forwarding {
			continue
		}
		to := w.route(f.r.node.view, g, &l.d)
		c := g.ledger.copies[l.d.Body]
		bodies = append(bodies, w.tagged(meta{kind: transferred, died: l.d.To == nil || c.meta.died, msg: c.meta.msg, ttl: quorumq.Unlimited, source: c, note: c.note}, &to.msg))
		t.DeadLetters = append(t.DeadLetters, quorumq.DeadLetter{Seq: l.d.Seq, NewMessage: to.new()})
		flying = append(flying, l)
	}
	if len(flying) == 0 {
		return
	}
	to := target.reps[f.r.node.idx].known
	if to < 0 || !w.connected(f.r.node.idx, to) {
		to = w.rng.IntN(members)
	}
	n.attempts++
	n.attempt, n.until = n.attempts, w.now+minTransit+w.rng.Int64N(transitSpread)
	w.event("transfer source target first count", int64(g.uid), int64(n.uid), int64(flying[0].d.Seq), int64(len(flying)))
	header, attempt := quorumq.AppendCommand(nil, t), n.attempt
	w.request(f.r.node.idx, to,
		func(reply func(callResult)) { target.reps[to].propose(header, bodies, reply) },
		func(a callResult) { f.transferred(n, attempt, flying, a) })
	if w.cfg.Fault == FaultEarlySettle {
		for _, l := range flying {
			l.stored = append(l.stored, n.uid)
		}
	}
}

// transferred takes the answer to a Transfer (DL-26).
func (f *forwarder) transferred(n *targetQueue, attempt int, flying []*deadLetter, a callResult) {
	if f.r.fwd != f || n.attempt != attempt {
		return
	}
	w := f.r.g.w
	n.attempt = 0
	if a.err != ok {
		n.retryAt = w.now + w.rng.Int64N(200)
		return
	}
	for _, l := range flying {
		if _, no := slices.BinarySearch(a.reply.Refused, l.d.Seq); no {
			n.retryAt = w.now + w.rng.Int64N(400)
			continue
		}
		if !slices.Contains(l.stored, n.uid) {
			l.stored = append(l.stored, n.uid)
		}
	}
}

// settle takes dead letters off the backlog.
func (f *forwarder) settle(done []quorumq.Seq) {
	w := f.r.g.w
	if len(done) == 0 || f.settling != 0 && w.now < f.settleUntil {
		return
	}
	cmd := &quorumq.BacklogSettle{}
	for _, s := range done {
		cmd.Ranges = append(cmd.Ranges, quorumq.SeqRange{First: s, Last: s})
	}
	f.settles++
	number := f.settles
	f.settling, f.settleUntil = number, w.now+minTransit+w.rng.Int64N(transitSpread)
	f.r.propose(quorumq.AppendCommand(nil, cmd), nil, func(a callResult) {
		if f.settling != number {
			return
		}
		f.settling = 0
		if a.err == ok {
			f.deadLetters = slices.DeleteFunc(f.deadLetters, func(l *deadLetter) bool { return slices.Contains(done, l.d.Seq) })
		}
	})
}

// routed is a dead letter and where it goes.
type routed struct {
	msg     message.Message
	targets []id.QueueUID
	cyclic  bool // there are targets, and each would make it go round (DL-40)
	kept    bool // its queue's rule lets it go nowhere (DL-27, DL-43)
	lost    bool // it is moved to where it can never go
}

// new is what the target's machine gets.
func (r *routed) new() quorumq.NewMessage {
	return quorumq.NewMessage{
		Size: uint32(len(r.msg.Body)), TTLMs: quorumq.Unlimited, Priority: quorumq.DefaultPriority,
	}
}

// route rewrites a discarded message and finds its targets by a view, as package
// deadletter does.
func (w *world) route(v *catalog.View, g *group, d *quorumq.Discarded) routed {
	if _, found := v.QueueByUID(g.uid); !found {
		return routed{}
	}
	_, stored := g.body(d.Body)
	m, err := message.Decode(stored)
	if err != nil {
		w.broke("body", "body %v of queue %s cannot be read: %v", d.Body, g.name, err)
		return routed{}
	}
	if d.Annotations != (quorumq.BodyRef{}) {
		_, stored := g.body(d.Annotations)
		notes, _, err := message.DecodeTable(stored)
		if err != nil {
			w.broke("body", "annotations %v of queue %s cannot be read: %v", d.Annotations, g.name, err)
		}
		m.Annotations = m.Annotations.Merged(notes)
	}
	if d.To != nil {
		return w.routeMoved(v, d.To, m)
	}
	r, rule := w.rewritten(v, g, d, m)
	if r.kept {
		return r
	}
	r.targets, err = v.Route(vhost, r.msg.Exchange, &catalog.Publication{Keys: r.msg.RoutingKeys}, nil)
	if err != nil {
		return routed{msg: r.msg}
	}
	n := len(r.targets)
	r.targets, _ = rule.Targets(v, r.targets, r.msg.Deaths)
	r.cyclic = n > 0 && len(r.targets) == 0
	return r
}

// rewritten is a discarded message as its queue's rule lets it go on, and the rule.
func (w *world) rewritten(v *catalog.View, g *group, d *quorumq.Discarded, m *message.Message) (routed, deadletter.Rule) {
	rule := w.ruleOf(v, g.name)
	r := routed{msg: deadletter.Rewrite(m, deadletter.Discard{
		Queue: g.name, Reason: d.Reason, NowMs: int64(d.At),
		DeliveryCount: d.DeliveryCount, AcquiredCount: d.AcquiredCount, Exchange: rule.Exchange,
	})}
	if w.cfg.Fault == FaultNoHops {
		rule.MaxHops = 0
	}
	rule.AllowCycles = rule.AllowCycles || w.cfg.Fault == FaultCycles
	r.kept = kept(&rule, deadletter.Hops(r.msg.Deaths))
	return r, rule
}

// pendingTargets returns the queues that must have a dead letter before it is settled, by the newest catalog (DL-21). It finds them by
// the bindings, and not by what routes dead letters, which is judged by it.
func (l *ledger) pendingTargets(c *copied) (uids []id.QueueUID) {
	w, v := l.w, l.w.catalog.View()
	if c.dead.To != nil {
		return w.route(v, l.g, &c.dead).targets
	}
	m, err := l.message(c.ref)
	if err != nil {
		l.broke("body", "body %v cannot be read: %v", c.ref, err)
		return nil
	}
	r, rule := w.rewritten(v, l.g, &c.dead, m)
	if r.kept {
		return nil
	}
	for _, g := range w.groups {
		if !g.deleted && bound(v, r.msg.Exchange, g.name) && (rule.AllowCycles || !deadletter.Cyclic(r.msg.Deaths, g.name)) {
			uids = append(uids, g.uid)
		}
	}
	return uids
}

// bound reports whether a fan-out exchange has a binding to a queue.
func bound(v *catalog.View, exchange, queue string) bool {
	for b := range v.BindingsFrom(vhost, exchange) {
		if b.Destination == queue {
			return true
		}
	}
	return false
}

// copies sends at-most-once dead letters through the leader's own gateway (DL-12).
func (r *replica) copies(ds []quorumq.Discarded) {
	w := r.g.w
	for i := range ds {
		to := w.route(r.node.view, r.g, &ds[i])
		c := r.g.ledger.copies[ds[i].Body]
		for _, uid := range to.targets {
			target := w.byUID[uid]
			if target.deleted {
				continue
			}
			w.event("copy source target index slot", int64(r.g.uid), int64(uid), int64(ds[i].Body.Index), int64(ds[i].Body.Slot))
			body := w.tagged(meta{kind: atMostOnce, died: true, msg: c.meta.msg, ttl: quorumq.Unlimited, source: c, note: c.note}, &to.msg)
			r.node.end(target).pub.Push(to.new(), body, &token{done: func(bool) {}, lost: func() {}})
		}
	}
}

// act carries effects out, as the leader does.
func (r *replica) act(eff quorumq.Effects) {
	w, g := r.g.w, r.g
	if eff.Timer != 0 {
		r.timer = eff.Timer
	}
	for _, d := range eff.Deliver {
		to := w.nodeOf(d.Consumer.Node)
		w.send(r.node.idx, to.idx, func() {
			if e := to.ends[g]; e != nil && to.epoch == d.Consumer.Epoch {
				e.delivered(d)
			}
		})
	}
	for _, n := range eff.Notices {
		to := w.nodeOf(n.Consumer.Node)
		w.send(r.node.idx, to.idx, func() {
			if e := to.ends[g]; e != nil && to.epoch == n.Consumer.Epoch {
				e.noticed(n)
			}
		})
	}
	if eff.Unused {
		g.unused = true
	}
	switch {
	case len(eff.Copies) == 0:
	case r.fwd == nil || r.routes():
		r.copies(eff.Copies)
	default:
		r.fwd.copies = append(r.fwd.copies, eff.Copies...)
	}
}
