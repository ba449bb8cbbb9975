package quorumq

// singleActive chooses the one consumer that gets messages, if Config.SingleActive is set (SAC-1).
//
// Invariants, see check. If on:
//   - exactly the consumers that subscribe have a number in since, each its own, in the order of
//     registration;
//   - active is the favourite, or a consumer that still holds messages and will be replaced by the
//     favourite (SAC-2); it is nil only if there is no favourite;
//   - all consumers with a number stand by, except the active one; the active one stands by too if
//     it is not the favourite.
//
// If not on, no consumer has a number, stands by or is active.
type singleActive struct {
	on     bool
	active *consumer
}

// enrol gives a consumer its position in the order of registration, before it subscribes.
func (a *singleActive) enrol(c *consumer, ss sessions) {
	if !a.on || c.since > 0 {
		return
	}
	newest := uint64(0)
	for o := range ss.consumers() {
		newest = max(newest, o.since)
	}
	c.since, c.standby = newest+1, true
}

// contend lets a consumer that has just subscribed become the active one, and notifies it whether
// it is active.
func (a *singleActive) contend(c *consumer, ss sessions, w *waiters, out *notices) {
	if !a.on {
		return
	}
	was := a.active == c
	a.elect(ss, w, out)
	if is := a.active == c; is == was { // else elect has notified it
		out.activity(c, is)
	}
}

// resign removes a consumer that no longer subscribes from the choice.
func (a *singleActive) resign(c *consumer) {
	c.since, c.standby = 0, false
	if a.active == c {
		a.active = nil
	}
}

// favourite returns the consumer that should be active, nil if none can be. A consumer can be
// active if it has answered for all timed-out deliveries and its node is not suspected. Of those
// with the highest priority, the favourite is the active one if it is among them, else the one that
// registered first.
func (a *singleActive) favourite(ss sessions) *consumer {
	if !a.on {
		return nil
	}
	var best *consumer
	for _, s := range ss {
		for _, c := range s.consumers {
			if c.subscribes() && !s.closed && !s.node.suspected && len(c.late) == 0 && (best == nil || a.preferred(c, best)) {
				best = c
			}
		}
	}
	return best
}

// preferred reports whether a consumer should be active rather than another one.
func (a *singleActive) preferred(c, to *consumer) bool {
	switch {
	case c.priority != to.priority:
		return c.priority > to.priority
	case c == a.active || to == a.active:
		return c == a.active
	default:
		return c.since < to.since
	}
}

// elect makes the favourite active. A consumer that is no longer the favourite gets nothing new,
// but stays active until it holds nothing (SAC-2).
func (a *singleActive) elect(ss sessions, w *waiters, out *notices) {
	if !a.on {
		return
	}
	best := a.favourite(ss)
	if c := a.active; c != nil && best != nil && c != best {
		w.leave(c)
		c.standby = true
		if c.held.live > 0 {
			return
		}
		a.active = nil
		out.activity(c, false)
	}
	if a.active == nil && best != nil {
		a.active = best
		out.activity(best, true)
	}
	if a.active != nil {
		a.active.standby = false
		w.wake(a.active)
	}
}

// set applies a change of the configuration.
func (a *singleActive) set(on bool, ss sessions, w *waiters, out *notices) {
	if a.on == on {
		return
	}
	before := a.active
	a.on, a.active = on, nil
	number := uint64(0)
	for c := range ss.consumers() {
		if !c.subscribes() {
			continue
		}
		c.since, c.standby = 0, false
		if !on {
			w.wake(c)
			if c != before {
				out.activity(c, true)
			}
			continue
		}
		number++
		c.since, c.standby = number, true
		w.leave(c)
		out.activity(c, false)
	}
	a.elect(ss, w, out)
}

// announce notifies the session's consumers which of them is active. In a queue without a single
// active consumer it notifies none.
func (a *singleActive) announce(s *session, out *notices) {
	for _, c := range s.consumers {
		if c.since > 0 {
			out.activity(c, c == a.active)
		}
	}
}

// standsBy reports whether a consumer stands by, given the favourite.
func (a *singleActive) standsBy(c, favourite *consumer) bool {
	return c.since > 0 && (c != a.active || favourite != nil && favourite != c)
}

// restoreStandbys computes which consumers stand by.
func (a *singleActive) restoreStandbys(ss sessions) {
	best := a.favourite(ss)
	for c := range ss.consumers() {
		c.standby = a.standsBy(c, best)
	}
}

// check returns an inconsistency, if there is one.
func (a *singleActive) check(ss sessions) error {
	best, found := a.favourite(ss), false
	seen := make(map[uint64]bool)
	for c := range ss.consumers() {
		switch {
		case c.since > 0 != (a.on && c.subscribes()), seen[c.since] && c.since > 0:
			return inv("consumer %v is number %d of those that wait to be active", c.key, c.since)
		case c.standby != a.standsBy(c, best):
			return inv("consumer %v stands by %t, active is %t", c.key, c.standby, c == a.active)
		}
		seen[c.since] = true
		found = found || c == a.active
	}
	if a.active == nil && best != nil || a.active != nil && (!found || best != nil && best != a.active && a.active.held.live == 0) {
		return inv("the active consumer is not the one that should be")
	}
	return nil
}
