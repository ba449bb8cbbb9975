package raftfsm

import "time"

// MaxDeferral limits how long a deferrable command waits before it gets an entry of its own.
const MaxDeferral = 50 * time.Millisecond

// deferral lets deferrable commands wait for others, in whose entry they go: an entry costs all
// members the same whatever it carries. The proposer's lock guards it.
type deferral struct {
	others int         // commands in the queue that are not deferrable
	since  time.Time   // when the oldest deferrable one in the queue came
	due    bool        // those in the queue wait no longer
	armed  bool        // the timer runs
	timer  *time.Timer // nil before the first
}

// leftBehind records that an entry left. The time of the deferrable commands for which it had no room starts then;
// commands that were queued behind others have no timer yet. It is called with the lock held.
func (p *proposer[R]) leftBehind(now time.Time) {
	l := &p.deferrable
	if len(p.queue) == 0 {
		l.due = false
		return
	}
	l.since = now
	if p.putOff() && !l.armed {
		p.arm(MaxDeferral)
	}
}

// putOff reports whether all that waits is deferrable and may wait on. It is called with the lock
// held.
func (p *proposer[R]) putOff() bool {
	return p.deferrable.others == 0 && !p.deferrable.due && !p.full()
}

// addDeferrable reports whether a deferrable command that was queued needs a step. It is called with the
// lock held.
func (p *proposer[R]) addDeferrable() (wake bool) {
	l := &p.deferrable
	if len(p.queue)-l.others == 1 {
		l.since = time.Now()
	}
	switch {
	case l.others > 0:
		return (p.gather.waits || p.turn.waits) && p.full()
	case l.due:
		return false
	case p.full():
		return true
	case !l.armed:
		p.arm(MaxDeferral)
	}
	return false
}

// arm is called with the lock held.
func (p *proposer[R]) arm(wait time.Duration) {
	p.deferrable.armed = true
	if p.deferrable.timer == nil {
		p.deferrable.timer = time.AfterFunc(wait, p.waited)
	} else {
		p.deferrable.timer.Reset(wait)
	}
}

// waited is called by the timer. It checks whether the commands that wait now have waited long enough.
func (p *proposer[R]) waited() {
	p.mu.Lock()
	p.deferrable.armed = false
	if !p.putOff() || len(p.queue) == 0 || p.closed {
		p.mu.Unlock()
		return
	}
	if rest := MaxDeferral - time.Since(p.deferrable.since); rest > 0 {
		p.arm(rest)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	p.flush()
}

// flush lets deferrable commands in the queue wait no longer.
func (p *proposer[R]) flush() {
	p.mu.Lock()
	wake := len(p.queue) > 0 && p.putOff()
	p.deferrable.due = p.deferrable.due || wake
	p.mu.Unlock()
	if wake {
		p.signal()
	}
}

// Flush ends the wait of deferrable commands, which get an entry at once. It does not block.
func (g *Group[R, E]) Flush() { g.proposer.flush() }
