package raftfsm

import "time"

// LazyMost bounds how long a lazy command waits before it gets an entry by itself.
const LazyMost = 50 * time.Millisecond

// lateness lets lazy commands wait for others, in whose entry they go: an entry costs all
// members the same whatever it carries. The proposer's lock guards it.
type lateness struct {
	others int         // commands in the queue that are not lazy
	since  time.Time   // when the oldest lazy one in the queue came
	due    bool        // those in the queue wait no longer
	armed  bool        // the timer runs
	timer  *time.Timer // nil before the first
}

// leftBehind notes that an entry left. Lazy commands for which it had no room wait their
// time from then on; those that came behind others have no timer yet. It is called with the
// lock held.
func (p *proposer[R]) leftBehind(now time.Time) {
	l := &p.lazy
	if len(p.queue) == 0 {
		l.due = false
		return
	}
	l.since = now
	if p.putOff() && !l.armed {
		p.arm(LazyMost)
	}
}

// putOff tells whether all that waits is lazy and may wait on. It is called with the lock
// held.
func (p *proposer[R]) putOff() bool {
	return p.lazy.others == 0 && !p.lazy.due && !p.full()
}

// addLazy tells whether a lazy command that was queued takes a turn. It is called with the
// lock held.
func (p *proposer[R]) addLazy() (wake bool) {
	l := &p.lazy
	if len(p.queue)-l.others == 1 {
		l.since = time.Now()
	}
	switch {
	case l.others > 0:
		return p.gather.waits && p.full()
	case l.due:
		return false
	case p.full():
		return true
	case !l.armed:
		p.arm(LazyMost)
	}
	return false
}

// arm is called with the lock held.
func (p *proposer[R]) arm(wait time.Duration) {
	p.lazy.armed = true
	if p.lazy.timer == nil {
		p.lazy.timer = time.AfterFunc(wait, p.waited)
	} else {
		p.lazy.timer.Reset(wait)
	}
}

// waited is the timer's: it looks whether those that wait now came so long ago.
func (p *proposer[R]) waited() {
	p.mu.Lock()
	p.lazy.armed = false
	if !p.putOff() || len(p.queue) == 0 || p.closed {
		p.mu.Unlock()
		return
	}
	if rest := LazyMost - time.Since(p.lazy.since); rest > 0 {
		p.arm(rest)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	p.hurry()
}

// hurry lets lazy commands in the queue wait no longer.
func (p *proposer[R]) hurry() {
	p.mu.Lock()
	wake := len(p.queue) > 0 && p.putOff()
	p.lazy.due = p.lazy.due || wake
	p.mu.Unlock()
	if wake {
		p.signal()
	}
}

// Hurry asks for an entry at once for lazy commands that wait. It does not block.
func (g *Group[R, E]) Hurry() { g.proposer.hurry() }
