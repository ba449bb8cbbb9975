package deadletter

import (
	"slices"
	"time"
)

// holdWait bounds how long a purge waits for the answers to Transfers that are under way. Those
// that were not sent by then are taken back.
const holdWait = time.Second

// oldViewRetry is how often an old view is checked again: nobody notifies the forwarder that the view was confirmed
// and has not changed.
const oldViewRetry = time.Second

// hold is a request that no dead letter leaves.
type hold struct {
	until    time.Time // until then answers are awaited
	then     func(arrived uint64, release func())
	notified bool // then was called
}

// Hold stops the forwarder for a purge: between the call of then and the call of release it
// sends no dead letter. Before it calls then, it waits for the answers of dead letters in flight,
// after holdWait takes back those that were not sent, and settles those that have arrived. So
// arrived, the number of dead letters in the backlog that some target has or may have, is mostly 0.
// then is called once, from any goroutine or within Hold, also if the forwarder is closed. It must
// not block, and may call release.
func (f *Forwarder) Hold(then func(arrived uint64, release func())) {
	h := &hold{until: time.Now().Add(holdWait), then: then}
	f.mu.Lock()
	f.holds = append(f.holds, h)
	waits := f.running && f.ctx.Err() == nil
	f.woken = f.woken || waits // the goroutine runs until it has called then
	h.notified = !waits
	f.look()
	f.mu.Unlock()
	if !waits {
		then(0, func() { f.release(h) }) // it knows of no dead letter
	}
}

// release lets the forwarder go on once no hold is left.
func (f *Forwarder) release(h *hold) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.holds = slices.DeleteFunc(f.holds, func(o *hold) bool { return o == h })
	f.look()
}

// holding reports whether no dead letter may leave, and until when answers are waited for: the earliest
// such time of the holds whose then was not called; zero: it was called for all.
func (f *Forwarder) holding() (held bool, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.holds {
		if !h.notified && (until.IsZero() || h.until.Before(until)) {
			until = h.until
		}
	}
	return len(f.holds) > 0, until
}

// notifyHolds notifies all that wait that nothing leaves any more.
func (f *Forwarder) notifyHolds(arrived uint64) {
	f.mu.Lock()
	var waiting []*hold
	for _, h := range f.holds {
		if !h.notified {
			h.notified = true
			waiting = append(waiting, h)
		}
	}
	f.mu.Unlock()
	for _, h := range waiting {
		h.then(arrived, func() { f.release(h) })
	}
}

// stand is a step in which nothing leaves: what is under way comes to its end; until is when
// that is waited for no more, zero if nobody waits.
func (r *forwarding) stand(now, until time.Time) bool {
	_, settled, err := r.src.Backlog(nil, r.loaded, 0)
	if err != nil {
		return false
	}
	r.forget(settled)
	over := !until.IsZero() && !now.Before(until)
	if over {
		for _, n := range r.targetQueues {
			if len(n.inFlight) > 0 {
				n.recall()
			}
		}
	}
	r.settle(now, true)
	// A settlement under way is in the log before the purge, or fails with it.
	if !until.IsZero() && !r.flying() && !r.settling && (len(r.done) == 0 || over) {
		r.notifyHolds(r.arrived())
	}
	return true
}

// arrived counts the dead letters of the backlog that some target has, or may have.
func (r *forwarding) arrived() uint64 {
	n := uint64(0)
	for _, l := range r.deadLetters {
		if !l.gone && (l.doubtful || len(l.stored) > 0) {
			n++
		}
	}
	return n
}
