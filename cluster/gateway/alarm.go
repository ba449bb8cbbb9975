package gateway

import "time"

// alarm rings at the earliest time that was asked for since it last rang. Asking again
// for something later does not put it off, so whoever asks at every event is not starved
// by events that keep coming. Its owner guards it.
type alarm struct {
	ring  func() // called without the owner's guard; the owner then calls rang
	timer *time.Timer
	at    time.Time // when it rings; zero: it is not set
}

// set asks for a ring at the time.
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

// rang makes the alarm ready to be set anew.
func (a *alarm) rang() { a.at = time.Time{} }

// stop ends it; a ring may still be on its way.
func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}
