package liveness

import "time"

// wokenShare bounds what the steps cost for which the loop is woken: the next one comes no sooner than so many times what
// the last one took. So one group that wants a leader has it at once, and those of a crowd go together.
const wokenShare = 4

// turns decides when the loop looks at the peers, and when it takes a step for who wakes it. However often it is woken, a
// look comes no later. It only computes.
type turns struct {
	tick time.Duration // Config.Tick

	look    time.Time     // when the next look is due
	wait    time.Duration // from the last step to that look, at most
	woken   bool          // a step is due
	soonest time.Time     // not before this
}

func (t *turns) lookDue(now time.Time) bool { return !now.Before(t.look) }

func (t *turns) stepDue(now time.Time) bool { return t.woken && !now.Before(t.soonest) }

// looked notes a look, which is a step too, and how long the loop may wait for the next one.
func (t *turns) looked(now time.Time, wait time.Duration) {
	t.look, t.wait, t.woken = now.Add(wait), wait, false
}

// stepped notes a step without a look. Something is to be done, so the next look comes soon.
func (t *turns) stepped(begin, end time.Time) {
	t.woken, t.soonest = false, end.Add(wokenShare*end.Sub(begin))
	if look := begin.Add(t.tick); look.Before(t.look) {
		t.look = look
	}
	t.wait = t.tick
}

// next returns when the loop has something to do, if it is not woken before.
func (t *turns) next() time.Time {
	if t.woken && t.soonest.Before(t.look) {
		return t.soonest
	}
	return t.look
}
