package liveness

import "time"

// wokenShare bounds what the steps cost for which the loop is woken: the next one comes no sooner than so many times what
// the last one took. So one group that wants a leader has it at once, and those of a crowd go together.
const wokenShare = 4

// schedule decides when the loop looks at the peers, and when it takes a step for who wakes it. However often it is woken, a
// look comes no later. It only computes.
type schedule struct {
	tick time.Duration // Config.Tick

	look    time.Time     // when the next look is due
	wait    time.Duration // from the last step to that look, at most
	woken   bool          // a step is due
	soonest time.Time     // not before this
}

// wake notes that somebody wants a step. Where it has to wait, a look comes as soon as when something is to be done.
func (t *schedule) wake(now time.Time) {
	t.woken = true
	t.lookBy(now.Add(t.tick))
}

// lookBy pulls the next look forward.
func (t *schedule) lookBy(at time.Time) {
	if at.Before(t.look) {
		t.look = at
	}
}

func (t *schedule) lookDue(now time.Time) bool { return !now.Before(t.look) }

func (t *schedule) stepDue(now time.Time) bool { return t.woken && !now.Before(t.soonest) }

// looked notes the end of a look, which is a step too, and how long the loop may wait for the next one.
func (t *schedule) looked(end time.Time, wait time.Duration) {
	t.look, t.wait, t.woken = end.Add(wait), wait, false
}

// stepped notes a step without a look. Something is to be done, so the next look comes soon.
func (t *schedule) stepped(begin, end time.Time) {
	t.woken, t.soonest = false, end.Add(wokenShare*end.Sub(begin))
	t.lookBy(begin.Add(t.tick))
	t.wait = t.tick
}

// next returns when the loop has something to do, if it is not woken before.
func (t *schedule) next() time.Time {
	if t.woken && t.soonest.Before(t.look) {
		return t.soonest
	}
	return t.look
}
