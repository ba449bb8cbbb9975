package gateway

import "time"

// alarm rings at the earliest time that was requested since it last rang. Requesting a later time
// does not postpone it, so frequent events cannot put it off for ever. Its owner guards it.
type alarm struct {
	ring  func() // called without the owner's lock; the owner then calls rang
	timer *time.Timer
	at    time.Time // when it rings; zero: it is not set
}

// set requests a ring at a time.
func (a *alarm) set(now, at time.Time) {
	if !a.at.IsZero() && !a.at.After(at) {
		return
	}
	a.at = at
	if a.timer == nil {
		a.timer = time.AfterFunc(at.Sub(now), a.ring)
		return
	}
	a.timer.Reset(at.Sub(now))
}

// rang makes the alarm ready to be set again.
func (a *alarm) rang() { a.at = time.Time{} }

// stop stops the alarm; a ring may still be under way.
func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}
