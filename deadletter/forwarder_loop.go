package deadletter

import (
	"slices"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/tracing"
)

// Bounds of one command.
const (
	maxTransferBytes = 4 << 20
	maxSettleBatch   = 4096
	pageDeadLetters  = 256 // records read ahead
	sweepDeadLetters = 32  // routed anew in one step
)

// settleGather is how long dead letters that all targets have wait for others, to be settled with
// them.
const settleGather = 50 * time.Millisecond

// maxFullBackoff bounds the wait before a full target is asked again: nobody notifies the
// forwarder that it has room, and asking costs one dead letter.
const maxFullBackoff = 500 * time.Millisecond

// hint is news about a target (DL-24); 0 stands for all.
type hint struct{ target id.QueueUID }

// forwarding is what the forwarder's goroutine owns while it runs.
type forwarding struct {
	*Forwarder
	resolver resolver
	view     *catalog.View
	changed  <-chan struct{}
	unserved bool // the view is not confirmed: see Router.Serves
	old      bool // the view is too old to send by: see MaxViewAge
	// sweepAt is the place in deadLetters of a pass over all of them after a change of the
	// view; len(deadLetters) or more: none is under way. nextSweep keeps passes apart.
	sweepAt   int
	swept     uint64 // index of the view of the last pass
	again     bool   // a pass is due though the view is the same
	nextSweep time.Time
	sweepNext time.Time // when the pass continues while dead letters are on their way

	deadLetters  []*deadLetter // ascending by number
	gone         int           // of them that are gone
	waiting      Causes
	targetQueues map[id.QueueUID]*targetQueue
	loaded       quorumq.Seq // highest number that was loaded
	settled      quorumq.Seq // all up to here have left the backlog
	more         bool        // the backlog may have dead letters above loaded
	// held dead letters have their bodies, which have heldBytes together.
	held, heldBytes int

	done     []quorumq.Seq // to be settled
	settling bool
	settleAt time.Time // not before
	// gatherUntil is when done is settled although Transfers are under way.
	gatherUntil time.Time
	settles     int // failures in a row

	completions chan completion
	page        []quorumq.Discarded // read ahead of what is loaded
	records     []quorumq.Discarded // room for it
}

// completion is what a command that was under way came to.
type completion struct {
	targetQueue *targetQueue // nil: of a settlement
	deadLetters int
	traced      *tracing.Origin // first traced message of a Transfer; nil without one
	reply       quorumq.Reply
	err         error
	seqs        []quorumq.Seq // of a settlement
}

// newForwarding begins without knowing the backlog, which it then reads from the start.
func newForwarding(f *Forwarder) *forwarding {
	return &forwarding{
		Forwarder: f, resolver: resolver{rt: f.router, src: f.src}, targetQueues: make(map[id.QueueUID]*targetQueue), more: true,
		completions: make(chan completion),
	}
}

// step does all that can be done now; false when the term is over.
func (r *forwarding) step() bool {
	if r.ctx.Err() != nil {
		return false
	}
	woken, hints := r.news()
	r.more = r.more || woken
	now := time.Now()
	if held, until := r.holding(); held {
		r.changed = r.router.Changed() // a change that came means nothing now
		return r.stand(now, until)
	}
	// Nothing is routed by a view that may lack a target: a dead letter that leaves the backlog would
	// never reach it (DL-23).
	r.changed = r.router.ServesChanged()
	if r.unserved = !r.router.Serves(); r.unserved {
		return r.stand(now, time.Time{})
	}
	// DL-25: by now the source may be deleted, and its targets may have forgotten what they have of it.
	if r.old = !r.router.Current(); r.old {
		return r.stand(now, time.Time{})
	}
	r.lookAtView(now)
	r.unblock(now, hints)
	// What is ready leaves before more is made ready: that is done while it is on its way.
	if !r.sendAll() || r.prepare() && !r.load() {
		return false
	}
	r.sweep()
	if !r.sendAll() {
		return false
	}
	r.settle(now, false)
	r.publishWaiting()
	return true
}

// sweepDue reports whether all dead letters are to be routed anew.
func (r *forwarding) sweepDue() bool { return r.again || r.swept != r.view.Index() }

// lookAtView takes a new view up and starts a pass over all dead letters: the route of each
// may have changed (DL-23, DL-24).
func (r *forwarding) lookAtView(now time.Time) {
	r.changed = r.router.Changed()
	r.view = r.router.View()
	r.resolver.look(r.view)
	if len(r.deadLetters) == 0 {
		r.swept, r.sweepAt, r.again = r.view.Index(), 0, false
		return
	}
	if !r.sweepDue() || r.sweeping() || now.Before(r.nextSweep) {
		return
	}
	r.swept, r.sweepAt, r.again = r.view.Index(), 0, false
	r.nextSweep = now.Add(r.cfg.MinBackoff)
	for _, n := range r.targetQueues {
		n.retryAt = time.Time{}
	}
}

func (r *forwarding) sweeping() bool { return r.sweepAt < len(r.deadLetters) }

// unblock lets target queues be tried whose time has come, or about which there is news.
func (r *forwarding) unblock(now time.Time, hints []hint) {
	for _, h := range hints {
		for _, n := range r.targetQueues {
			if h.target == 0 || h.target == n.uid {
				n.retryAt = time.Time{}
			}
		}
	}
	for _, n := range r.targetQueues {
		if n.blocked() && !now.Before(n.retryAt) {
			n.retryAt = time.Time{}
		}
	}
}

// forget drops the dead letters that have left the backlog: settled, or purged.
func (r *forwarding) forget(settled quorumq.Seq) {
	if settled <= r.settled {
		return
	}
	r.settled = settled
	n := 0
	for n < len(r.deadLetters) && r.deadLetters[n].d.Seq <= settled {
		r.drop(r.deadLetters[n])
		n++
	}
	r.deadLetters = slices.Delete(r.deadLetters, 0, n)
	r.gone -= n
	r.sweepAt = max(r.sweepAt-n, 0)
	r.loaded = max(r.loaded, settled)
}

// drop takes a dead letter out of everything but the list.
func (r *forwarding) drop(l *deadLetter) {
	if l.gone {
		return
	}
	l.gone = true
	r.gone++
	r.setCause(l, CauseNone)
	for _, p := range l.pending {
		if n := r.targetQueues[p.uid]; n != nil && !p.flying {
			n.remove(l)
			r.tidy(n)
		}
	}
	r.release(l)
}

// tidy forgets a target queue that has nothing.
func (r *forwarding) tidy(n *targetQueue) {
	if len(n.queue) == 0 && len(n.inFlight) == 0 {
		delete(r.targetQueues, n.uid)
	}
}

// sweep routes dead letters anew, some at a step. While dead letters are on their way it leaves three
// quarters of the time to others: there may be 65,536, and those who publish wait for the same
// processors.
func (r *forwarding) sweep() {
	begin := time.Now()
	flying := r.flying()
	if flying && begin.Before(r.sweepNext) {
		return
	}
	for n := 0; n < sweepDeadLetters && r.sweeping(); r.sweepAt++ {
		if l := r.deadLetters[r.sweepAt]; !l.gone && !l.done && l.at != r.view.Index() {
			r.reroute(l, false)
			n++
		}
	}
	r.sweepNext = time.Time{}
	switch {
	case !r.sweeping():
	case flying:
		now := time.Now()
		r.sweepNext = now.Add(3 * now.Sub(begin))
	default:
		r.look()
	}
}

// reroute finds the targets of a dead letter by the present view and puts it into their target queues
// (DL-23). Its message stays if any of them can be tried, and it is held already or take is
// set.
func (r *forwarding) reroute(l *deadLetter, take bool) {
	way := r.resolver.route(&l.d)
	l.at = r.view.Index()
	r.retarget(l, way.targets)
	switch {
	case len(l.pending) > 0:
		r.setCause(l, CauseNone)
		r.hold(l, way, take)
	case len(l.stored) > 0 && way.cause != CauseUnreadable:
		r.setCause(l, CauseNone)
		r.finish(l)
	default:
		r.setCause(l, way.cause)
		r.release(l)
		r.failed(way.cause, way.key, way.text, r.cfg.Tracer.Origin(way.msg.Headers))
		if way.cause == CauseUnreadable {
			l.at, r.again = 0, true
			r.nextSweep = time.Now().Add(r.cfg.MaxBackoff)
		}
	}
}

// setCause keeps the counts by cause in step.
func (r *forwarding) setCause(l *deadLetter, c Cause) {
	if l.cause != CauseNone {
		r.waiting[l.cause]--
	}
	if l.cause = c; c != CauseNone {
		r.waiting[c]++
	}
}

// retarget makes pending of the targets that have not stored the dead letter.
func (r *forwarding) retarget(l *deadLetter, targets []id.QueueUID) {
	l.pending = slices.DeleteFunc(l.pending, func(p pendingTarget) bool {
		if p.flying || slices.Contains(targets, p.uid) {
			return false
		}
		if n := r.targetQueues[p.uid]; n != nil {
			n.remove(l)
			r.tidy(n)
		}
		return true
	})
	for _, uid := range targets {
		if slices.Contains(l.stored, uid) || l.target(uid) != nil {
			continue
		}
		if l.pending == nil {
			l.pending = l.only[:0]
		}
		l.pending = append(l.pending, pendingTarget{uid: uid})
		n := r.targetQueues[uid]
		if n == nil {
			n = &targetQueue{uid: uid}
			r.targetQueues[uid] = n
		}
		n.add(l)
	}
}

// finish marks a dead letter that every target has.
func (r *forwarding) finish(l *deadLetter) {
	if l.done || l.gone {
		return
	}
	l.done = true
	r.release(l)
	if len(r.done) == 0 {
		r.gatherUntil = time.Now().Add(settleGather)
	}
	r.done = append(r.done, l.d.Seq)
}

func (r *forwarding) empty() bool {
	return len(r.deadLetters) == r.gone && len(r.page) == 0 && len(r.targetQueues) == 0 && !r.settling && !r.more
}

// wait waits for the next thing that can change anything.
func (r *forwarding) wait() {
	var timer <-chan time.Time
	if at := r.nextTime(); !at.IsZero() {
		t := time.NewTimer(time.Until(at))
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-r.ctx.Done():
	case <-r.nudge:
	case <-r.changed:
	case <-timer:
	case a := <-r.completions:
		r.handleCompletion(a)
	}
}

// nextTime is when something is due by the clock; zero: nothing.
func (r *forwarding) nextTime() time.Time {
	var next time.Time
	earliest := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	if len(r.done) > 0 && !r.settling {
		at := r.settleAt
		if r.gatherUntil.After(at) {
			at = r.gatherUntil
		}
		earliest(at)
	}
	if held, until := r.holding(); held {
		if time.Now().Before(until) {
			earliest(until)
		}
		return next
	}
	if r.unserved {
		return next
	}
	if r.old {
		earliest(time.Now().Add(oldViewRetry))
		return next
	}
	for _, n := range r.targetQueues {
		if len(n.inFlight) == 0 {
			earliest(n.retryAt)
		}
	}
	if r.view != nil && r.sweepDue() {
		earliest(r.nextSweep)
	}
	if r.sweeping() {
		earliest(r.sweepNext)
	}
	return next
}

// handleCompletion works a command's answer in.
func (r *forwarding) handleCompletion(a completion) {
	if a.targetQueue == nil {
		r.handleSettled(a)
		return
	}
	r.handleTransferred(a)
}

// backoff is the wait after so many failures in a row (DL-24): doubled each time, with a
// jitter of half.
func (r *forwarding) backoff(failures int) time.Duration {
	d := r.cfg.MaxBackoff
	if shift := failures - 1; shift < 32 {
		d = min(d, r.cfg.MinBackoff<<shift)
	}
	return d/2 + time.Duration(r.cfg.Chance()*float64(d/2))
}

// over reports whether the forwarder was closed.
func (r *forwarding) over() bool { return r.ctx.Err() != nil }
