package raftfsm

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// item is a command, or a barrier, that waits for its entry.
type item[R any] struct {
	command Command
	bytes   int64
	barrier bool
	done    func(R, error)
}

// pendingEntry is an entry that was handed to raft and is not answered yet. Of its items it keeps who waits, not the
// commands: hand drops these.
type pendingEntry[R any] struct {
	term, seq uint64
	bodies    int
	items     []item[R]
	bytes     int64
	left      time.Time
	future    raft.ApplyFuture // set once raft has the entry
	lead      bool             // carries the Lead command
}

// limits are Config's of entries.
type limits struct {
	inFlight, commands int
	bytes              int64
}

// proposer gathers commands into entries. A goroutine runs steps only while there is
// something to do: groups at rest have none. What is below mu is guarded by it; steps alone
// move items from the queue into entries in flight.
type proposer[R any] struct {
	limits   limits
	pipeline *Pipeline
	begin    func()        // starts the goroutine that runs steps
	asked    atomic.Uint32 // how often a step was asked for since the goroutine started; 0: none runs
	news     atomic.Bool   // raft has reported another leader or state
	commands []Command     // of the entry that a step encodes, reused

	mu         sync.Mutex
	queue      []item[R]
	queued     int64 // bytes in queue
	gather     gathering
	deferrable deferral
	turn       turn
	inFlight   []*pendingEntry[R] // in the order in which raft got them
	pending    int64              // bytes in queue and entries in flight
	bodies     int                // those in queue and entries in flight
	term       uint64             // term whose Lead command was proposed; 0: not leader
	seq        uint64             // of the newest entry
	paused     int                // transfers of leadership in progress
	wary       bool               // a transfer was tried in this term: raft may refuse entries
	awaiting   bool               // a goroutine runs completeDoubtful
	closed     bool
	drained    chan struct{} // closed when closed and no entry in flight is left; nil until asked for
}

// signal asks for a step. It does not block.
func (p *proposer[R]) signal() {
	if p.asked.Add(1) == 1 {
		p.begin()
	}
}

// pendingBytes are those of commands that are not answered.
func (p *proposer[R]) pendingBytes() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pending
}

// Propose puts a command into the log and returns the machine's reply once the command is committed
// and applied here. After *NotLeaderError, *TooLargeError, ErrBusy or ErrStopped the command is not
// in the log; after ErrUnknownOutcome or the error of ctx its outcome is unknown.
func (g *Group[R, E]) Propose(ctx context.Context, c Command) (R, error) {
	return await(ctx, func(done func(R, error)) { g.Submit(c, done) })
}

// await waits for a reply until ctx ends; the command may take effect after that.
func await[R any](ctx context.Context, submit func(func(R, error))) (R, error) {
	type result struct {
		reply R
		err   error
	}
	answered := make(chan result, 1)
	submit(func(reply R, err error) { answered <- result{reply, err} })
	select {
	case a := <-answered:
		return a.reply, a.err
	case <-ctx.Done():
		var none R
		return none, fmt.Errorf("raftfsm: wait for a command's reply: %w", ctx.Err())
	}
}

// Submit is Propose without waiting. done is called exactly once, possibly before Submit returns,
// in log order for commands that were applied; it must not block. It gets a command's reply before
// the command's effects are acted on.
func (g *Group[R, E]) Submit(c Command, done func(R, error)) {
	it := item[R]{command: c, bytes: int64(commandBytes(c)), done: done}
	if it.bytes > MaxCommandBytes {
		var none R
		done(none, &TooLargeError{Group: g.c.Group, Size: it.bytes, Most: MaxCommandBytes})
		return
	}
	g.enqueue(it)
}

// Barrier returns when everything committed before the call is applied here and this member was
// still the leader: a Read after it is not stale.
func (g *Group[R, E]) Barrier(ctx context.Context) error {
	_, err := await(ctx, func(done func(R, error)) { g.enqueue(item[R]{barrier: true, done: done}) })
	return err
}

// enqueue answers at once what is not admitted. Whoever adds to an empty queue wakes the proposer.
func (g *Group[R, E]) enqueue(it item[R]) {
	p := &g.proposer
	p.mu.Lock()
	err := g.admit(it.bytes)
	wake := err == nil && p.add(it) && p.room()
	inline := wake && p.quiet()
	p.mu.Unlock()
	if err != nil {
		var none R
		it.done(none, err)
		return
	}
	switch {
	case inline:
		g.stepInline()
	case wake:
		p.signal()
	}
}

// admit is called with the proposer's lock held. A leader that no step has noticed yet may gather commands already;
// if it leads no longer, the next step refuses them.
func (g *Group[R, E]) admit(bytes int64) error {
	p := &g.proposer
	switch {
	case p.closed || g.Failed() != nil:
		return g.stopped()
	case g.raft.Load().State() != raft.Leader:
		return g.notLeader()
	case p.pending > 0 && p.pending+bytes > g.c.MaxPendingBytes:
		return ErrBusy
	default:
		return nil
	}
}

func (g *Group[R, E]) notLeader() error {
	leader, _ := g.Leader()
	return &NotLeaderError{Group: g.c.Group, Leader: leader}
}

// observe takes raft's notices on raft's own goroutines.
func (g *Group[R, E]) observe(o *raft.Observation) (take bool) {
	switch o.Data.(type) {
	case raft.LeaderObservation, raft.RaftState:
		g.proposer.news.Store(true)
		g.proposer.signal()
	}
	return false // there is no channel
}

// leaderTerm returns the term that this member leads, 0 if none. Raft leaves the state of
// a leader before it changes the term: a leader between two equal terms led that one.
func leaderTerm(r *raft.Raft) uint64 {
	if r == nil {
		return 0
	}
	term := r.CurrentTerm()
	if r.State() != raft.Leader || r.CurrentTerm() != term {
		return 0
	}
	return term
}

// add queues a command and reports whether that needs a step: else one was asked for, or will
// be when more has gathered or a place among the entries in flight is free. It is called with the lock
// held.
func (p *proposer[R]) add(it item[R]) (wake bool) {
	p.queue = append(p.queue, it)
	p.pending += it.bytes
	p.queued += it.bytes
	p.bodies += len(it.command.Bodies)
	p.gather.messages += weight(&it.command)
	if it.command.Deferrable {
		return p.addDeferrable()
	}
	p.deferrable.others++
	switch {
	case p.gather.waits:
		p.gather.came = time.Now()
		return p.full()
	case p.deferrable.others > 1:
		return p.turn.waits && p.large()
	default:
		return !p.hold(time.Now())
	}
}

// full reports whether the queue has all that an entry takes.
func (p *proposer[R]) full() bool {
	return len(p.queue) >= p.limits.commands || p.queued >= p.limits.bytes
}

// large reports whether what is in flight and in the queue is too much for a wait to pay. It is called with the lock held.
func (p *proposer[R]) large() bool { return p.full() || p.pending > pipelineBytes }

// hold reports whether more is to be gathered before the next entry; then a step will be
// asked for. It is called with the lock held.
func (p *proposer[R]) hold(now time.Time) bool {
	wait := p.gather.hold(now)
	if wait <= 0 || p.full() {
		return false
	}
	if !p.gather.waits {
		p.gather.waits = true
		time.AfterFunc(wait, func() {
			p.mu.Lock()
			p.gather.waits = false
			p.mu.Unlock()
			p.signal()
		})
	}
	return true
}

// next makes an entry of the waiting commands. It returns nil if there are none, too many entries are on their way,
// or more commands should be gathered first.
func (p *proposer[R]) next() *pendingEntry[R] {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 || p.paused > 0 || p.closed || p.putOff() || !p.room() {
		return nil
	}
	now := time.Now()
	if p.hold(now) {
		return nil
	}
	n, bytes, messages, bodies := 0, int64(0), 0, 0
	for n < len(p.queue) && n < p.limits.commands {
		it := &p.queue[n]
		if n > 0 && entryHeadBytes+bytes+it.bytes > p.limits.bytes {
			break
		}
		bytes += it.bytes
		messages += weight(&it.command)
		bodies += len(it.command.Bodies)
		if !it.command.Deferrable {
			p.deferrable.others--
		}
		n++
	}
	f := &pendingEntry[R]{term: p.term, bodies: bodies, bytes: bytes, items: p.queue[:n:n]}
	// The entry in flight keeps the front of the array; the queue continues behind it.
	if p.queue = p.queue[n:]; len(p.queue) == 0 {
		p.queue = nil
	}
	p.queued -= bytes
	p.leftBehind(now)
	p.gather.leaves(messages, now)
	p.turn.leaves(bodies)
	p.depart(f, now)
	return f
}

// room reports whether one more entry may be on its way. Whoever is refused is asked again when one of this group has
// landed, or has taken long. It is called with the lock held.
func (p *proposer[R]) room() bool {
	switch n := len(p.inFlight); {
	case n == 0:
		return true
	case n >= p.limits.inFlight:
		return false
	case p.turn.skip > 0 || p.bodies < pipelineMessages || p.large() || p.pipeline.free():
		return true
	default:
		return !p.waitTurn()
	}
}

// depart is called with the lock held.
func (p *proposer[R]) depart(f *pendingEntry[R], now time.Time) {
	p.seq++
	f.seq, f.left = p.seq, now
	p.inFlight = append(p.inFlight, f)
	p.pipeline.entries.Add(1)
}

// proposeLead proposes the command by which the machine learns who leads. A machine that
// wants none gets an entry without commands: its apply is the barrier of the new term.
func (g *Group[R, E]) proposeLead(r *raft.Raft, term uint64, commands *[]Command) {
	f := &pendingEntry[R]{term: term, lead: true}
	header, latest := g.leadHeader(term)
	g.stamps.begin(latest, g.c.Clock())
	if header != nil {
		c := Command{Header: header}
		f.bytes = int64(commandBytes(c))
		f.items = []item[R]{{command: c, bytes: f.bytes, done: func(R, error) {}}}
	}
	p := &g.proposer
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.pending += f.bytes
	p.depart(f, time.Now())
	p.mu.Unlock()
	g.hand(r, f, commands)
}

// leadHeader returns the command by which the machine learns who leads, and the latest stamp
// that it has had.
func (g *Group[R, E]) leadHeader(term uint64) (header []byte, latest int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.machine.Lead(g.c.Node, term), g.machine.Now()
}

// hand encodes an entry and gives it to raft, whose inbox has a place for every entry
// in flight, so that it does not block.
func (g *Group[R, E]) hand(r *raft.Raft, f *pendingEntry[R], commands *[]Command) {
	list := (*commands)[:0]
	for i := range f.items {
		if !f.items[i].barrier {
			list = append(list, f.items[i].command)
		}
		f.items[i].command = Command{} // the entry holds its bytes from here on
	}
	head := entryHead{lead: f.lead, term: f.term, seq: f.seq, nowMs: g.stamps.next(g.c.Clock())}
	data := appendEntry(make([]byte, 0, entryHeadBytes+f.bytes), g.c.Group, head, list)
	clear(list)
	*commands = list
	future := r.Apply(data, 0)
	p := &g.proposer
	p.mu.Lock()
	f.future = future
	wary := p.wary
	p.mu.Unlock()
	if wary {
		g.awaitDoubtful()
	}
	g.pushSoon()
}

// land takes an entry that is being applied off the list of those in flight; nil if it is not ours or
// was answered before, as unknown.
func (p *proposer[R]) land(term, seq uint64) *pendingEntry[R] {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, f := range p.inFlight {
		if f.term == term && f.seq == seq {
			p.remove(i)
			p.gather.took = time.Since(f.left)
			return f
		}
	}
	return nil
}

// underway reports whether entries were handed to raft and are not answered yet.
func (p *proposer[R]) underway() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.inFlight) > 0
}

// remove is called with the lock held.
func (p *proposer[R]) remove(i int) {
	f := p.inFlight[i]
	p.inFlight = append(p.inFlight[:i], p.inFlight[i+1:]...)
	p.inFlight[:len(p.inFlight)+1][len(p.inFlight)] = nil
	p.pipeline.entries.Add(-1)
	p.endTurn()
	p.bodies -= f.bodies
	p.pending -= f.bytes
	if len(p.inFlight) == 0 && p.drained != nil {
		close(p.drained)
		p.drained = nil
	}
	if len(p.queue) > 0 && !p.putOff() && (!p.gather.waits || p.full()) {
		p.signal()
	}
}
