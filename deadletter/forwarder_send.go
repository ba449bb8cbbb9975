package deadletter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// sendAll starts what Transfers can be started; false when the term is over. Making one
// ready may open another target queue, so it goes round until nothing more starts.
func (r *forwarding) sendAll() bool {
	for sent := true; sent; {
		sent = false
		for _, uid := range slices.Sorted(maps.Keys(r.targetQueues)) {
			n := r.targetQueues[uid]
			if n == nil || len(n.inFlight) > 0 || n.blocked() || len(n.queue) == 0 {
				continue
			}
			started, ok := r.send(n)
			if !ok {
				return false
			}
			sent = sent || started
		}
	}
	return true
}

// send starts a target queue's next Transfer; ok is false when the term is over.
func (r *forwarding) send(n *targetQueue) (started, ok bool) {
	// what was purged meanwhile must not go out.
	_, settled, err := r.src.Backlog(nil, r.loaded, 0)
	if err != nil {
		return false, false
	}
	r.forget(settled)
	k := r.fill(n)
	if k == 0 {
		r.tidy(n)
		return false, true
	}
	t := &quorumq.Transfer{Source: r.src.UID(), Settled: r.settled, DeadLetters: make([]quorumq.DeadLetter, k)}
	bodies := make([][]byte, k)
	n.inFlight = append(n.inFlight[:0], n.queue[:k]...)
	n.removeFront(k)
	for i, l := range n.inFlight {
		l.target(n.uid).flying = true
		t.DeadLetters[i] = quorumq.DeadLetter{Seq: l.d.Seq, NewMessage: l.load.msg}
		t.DeadLetters[i].Priority = levelAt(r.view, n.uid, l.load.prio)
		bodies[i] = l.load.body
	}
	spans, traced := r.traceTransfer(n), n.tracedOf()
	for _, l := range n.inFlight {
		if !r.triable(l) {
			// The Transfer has the bodies; after a failure they are read again. They
			// count until it is answered.
			l.load.body = nil
		}
	}
	var ctx context.Context
	ctx, n.recall = context.WithCancel(r.ctx)
	r.Forwarder.done.Go(func() {
		reply, err := r.sender.Transfer(ctx, n.uid, t, bodies)
		endTransfer(spans, &reply, err)
		r.completion(completion{targetQueue: n, deadLetters: k, traced: traced, reply: reply, err: err})
	})
	return true, true
}

// fill makes the first dead letters of a target queue ready to go: routed by the present view and
// with their bodies; it returns how many are. One is made ready even when the window is
// full, so that every target queue gets on.
func (r *forwarding) fill(n *targetQueue) int {
	k, size, most := 0, 0, r.cfg.transfer
	if (n.cause == CauseFull || n.cause == CauseRanges) && n.failures > 1 {
		most = 1 // a probe: a full target is asked often, so that room is found soon
	}
	for k < len(n.queue) && k < most {
		l := n.queue[k]
		if l.at != r.view.Index() || !l.ready() {
			if k > 0 && l.load == nil && r.room() == 0 {
				break
			}
			r.reroute(l, true)
			if k >= len(n.queue) || n.queue[k] != l {
				continue // it goes elsewhere now
			}
			if !l.ready() {
				break // unreadable for now
			}
		}
		if size += l.load.size; k > 0 && size > r.cfg.transferBytes {
			break
		}
		k++
	}
	return k
}

// completion hands an answer to the loop, or drops it when the loop has ended.
func (r *forwarding) completion(a completion) {
	select {
	case r.completions <- a:
	case <-r.ctx.Done():
	}
}

// What the answer to a Transfer says besides what was stored.
var (
	errCode       = errors.New("deadletter: the target's machine answered with an unknown code")
	errSourceGone = errors.New("deadletter: the source is deleted, which this node does not know yet: look at its links to the others")
)

// handleTransferred works the answer to a Transfer in (DL-26).
func (r *forwarding) handleTransferred(a completion) {
	n := a.targetQueue
	// The target queue keeps its messages in flight until all is worked in: an empty one would be forgotten.
	inFlight := n.inFlight
	err := a.err
	switch {
	case err != nil || a.reply.Code == quorumq.CodeOK:
	case a.reply.Code == quorumq.CodeSourceGone: // the next view will show it
		err = errSourceGone
	default:
		err = fmt.Errorf("%w: %d", errCode, a.reply.Code)
	}
	refused := 0
	for _, l := range inFlight {
		if l.gone {
			continue
		}
		p := l.target(n.uid)
		p.flying = false
		no := err != nil
		if !no {
			_, no = slices.BinarySearch(a.reply.Refused, l.d.Seq)
		}
		if no {
			l.doubtful = errors.Is(err, ErrDoubtful) || l.doubtful && err != nil
			refused++
			n.add(l)
			continue
		}
		r.stored(l, n.uid)
	}
	r.pace(n, a, err, refused)
	for _, l := range inFlight {
		if !l.gone && !l.done && !r.triable(l) {
			r.release(l)
		}
	}
	clear(n.inFlight)
	n.inFlight = n.inFlight[:0]
	n.recall()
	r.tidy(n)
}

// stored records that a target has the dead letter.
func (r *forwarding) stored(l *deadLetter, uid id.QueueUID) {
	l.stored = append(l.stored, uid)
	l.pending = slices.DeleteFunc(l.pending, func(p pendingTarget) bool { return p.uid == uid })
	if len(l.pending) > 0 {
		return
	}
	if l.at != r.view.Index() {
		// DL-23: the route may have changed while it was under way.
		r.reroute(l, false)
		return
	}
	r.finish(l)
}

// pace sets when the target queue is tried again.
func (r *forwarding) pace(n *targetQueue, a completion, err error, refused int) {
	r.mu.Lock()
	if err == nil {
		r.stats.Repeats += uint64(a.deadLetters - refused - a.reply.Stored)
	}
	r.mu.Unlock()
	name := nameOf(r.view, n.uid)
	switch {
	case err == nil && refused == 0:
		n.failures, n.cause = 0, CauseNone
		return
	case err == nil:
		if refused < a.deadLetters {
			n.failures = 0
		}
		var text string
		n.cause, text = r.refusal(n, &a.reply, name)
		r.failed(n.cause, name, text, a.traced)
	case errors.Is(err, ErrNoTarget):
		// The next view will not route there any more.
		n.cause = CauseTargetGone
		r.failed(CauseTargetGone, name, fmt.Sprintf("queue %q was deleted", name), a.traced)
	default:
		if r.over() {
			return
		}
		n.cause = CauseUnavailable
		r.failed(CauseUnavailable, name, fmt.Sprintf("queue %q does not answer: %v", name, err), a.traced)
	}
	n.failures++
	wait := r.backoff(n.failures)
	if err == nil {
		wait = min(wait, maxFullBackoff)
	}
	n.retryAt = time.Now().Add(wait)
	r.closed(n)
}

// closed lets go of the bodies that no open target queue can use.
func (r *forwarding) closed(n *targetQueue) {
	for _, l := range n.queue {
		if l.load != nil && !l.flying() && !r.triable(l) {
			r.release(l)
		}
	}
}

// settle takes finished dead letters off the backlog, one command at a time (DL-21). While more
// dead letters are on their way it waits for them a little: each command costs an entry of the
// source's log, however many dead letters it has. At once it waits for none.
func (r *forwarding) settle(now time.Time, atOnce bool) {
	if r.settling || len(r.done) == 0 || now.Before(r.settleAt) {
		return
	}
	if !atOnce && len(r.done) < maxSettleBatch && now.Before(r.gatherUntil) && r.flying() {
		return
	}
	seqs := r.done
	r.done = nil
	if len(seqs) > maxSettleBatch {
		seqs, r.done = seqs[:maxSettleBatch:maxSettleBatch], seqs[maxSettleBatch:]
	}
	r.settling = true
	ranges := toRanges(seqs)
	r.Forwarder.done.Go(func() {
		err := r.src.SettleBacklog(r.ctx, ranges)
		r.completion(completion{err: err, seqs: seqs})
	})
}

// handleSettled works the answer to a settlement in.
func (r *forwarding) handleSettled(a completion) {
	r.settling = false
	if a.err != nil {
		r.done = append(r.done, a.seqs...)
		r.settles++
		r.settleAt = time.Now().Add(r.backoff(r.settles))
		if !r.over() {
			r.failed(CauseUnavailable, "", "the source queue does not take settlements: "+a.err.Error(), nil)
		}
		return
	}
	r.settles, r.settleAt = 0, time.Time{}
	r.mu.Lock()
	r.stats.Confirmed += uint64(len(a.seqs))
	r.mu.Unlock()
	for _, seq := range a.seqs {
		if i, ok := r.find(seq); ok {
			r.drop(r.deadLetters[i])
		}
	}
	if r.gone > len(r.deadLetters)/2 {
		r.compact()
	}
}

// flying reports whether a Transfer is under way.
func (r *forwarding) flying() bool {
	for _, n := range r.targetQueues {
		if len(n.inFlight) > 0 {
			return true
		}
	}
	return false
}

func (r *forwarding) find(seq quorumq.Seq) (int, bool) {
	return slices.BinarySearchFunc(r.deadLetters, seq, func(l *deadLetter, seq quorumq.Seq) int { return cmp.Compare(l.d.Seq, seq) })
}

// compact drops dead letters that are gone from the list.
func (r *forwarding) compact() {
	sweepAt := 0
	for i, l := range r.deadLetters {
		if i < r.sweepAt && !l.gone {
			sweepAt++
		}
	}
	r.deadLetters = slices.DeleteFunc(r.deadLetters, func(l *deadLetter) bool { return l.gone })
	r.gone, r.sweepAt = 0, sweepAt
}

// publishWaiting counts the dead letters that wait, by cause.
func (r *forwarding) publishWaiting() {
	waiting := r.waiting
	for _, n := range r.targetQueues {
		if n.failures > 0 {
			waiting[n.cause] += uint64(len(n.queue) + len(n.inFlight))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Waiting = waiting
	if waiting == (Causes{}) && r.settles == 0 {
		r.unblocked()
	}
}
