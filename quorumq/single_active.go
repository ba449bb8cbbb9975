package quorumq

// This part of subscriptions is for a queue with a single active consumer (SAC-1). Its invariants,
// see checkActive: each consumer that subscribes has a number of its own in since, in the order of
// registration; who is active is the favourite, or still holds messages until it is (SAC-2); all
// others stand by. Without a single active consumer none has a number, stands by or is active.

// enrol gives a consumer its place in the order of registration, before it subscribes.
func (s *subscriptions) enrol(c *consumer) {
	if !s.single {
		return
	}
	newest := uint64(0)
	for o := range s.consumers() {
		newest = max(newest, o.since)
	}
	c.since, c.standby = newest+1, true
}

// contend lets a consumer that has just subscribed become the active one, and tells it
// whether it is.
func (s *subscriptions) contend(c *consumer) {
	if !s.single {
		return
	}
	was := s.active == c
	s.elect()
	if is := s.active == c; is == was { // else elect has told
		s.tellActivity(c, is)
	}
}

// resign takes a consumer that does not subscribe any more out of the choice.
func (s *subscriptions) resign(c *consumer) {
	c.since, c.standby = 0, false
	if s.active == c {
		s.active = nil
	}
}

// favourite returns the consumer that should be active: not timed out, of the highest priority,
// then the one that is, then the one that registered first; nil if no consumer can be (SAC-1).
func (s *subscriptions) favourite() *consumer {
	if !s.single {
		return nil
	}
	var best *consumer
	for _, x := range s.order {
		for _, c := range x.consumers {
			if c.subscribes() && !x.closed && !x.node.suspected && len(c.late) == 0 && (best == nil || s.preferred(c, best)) {
				best = c
			}
		}
	}
	return best
}

// preferred tells which of two should rather be active.
func (s *subscriptions) preferred(c, to *consumer) bool {
	switch {
	case c.priority != to.priority:
		return c.priority > to.priority
	case c == s.active || to == s.active:
		return c == s.active
	default:
		return c.since < to.since
	}
}

// elect sees to it that the favourite is active. One that is not the favourite any more
// gets nothing new, and stays active until it holds nothing (SAC-2).
func (s *subscriptions) elect() {
	if !s.single {
		return
	}
	best := s.favourite()
	if a := s.active; a != nil && best != nil && a != best {
		s.waiters.leave(a)
		a.standby = true
		if a.held.live > 0 {
			return
		}
		s.active = nil
		s.tellActivity(a, false)
	}
	if s.active == nil && best != nil {
		s.active = best
		s.tellActivity(best, true)
	}
	if s.active != nil {
		s.active.standby = false
		s.waiters.wake(s.active)
	}
}

// setSingle follows a change of the configuration.
func (s *subscriptions) setSingle(single bool) {
	if s.single == single {
		return
	}
	s.single = single
	before := s.active
	s.active = nil
	number := uint64(0)
	for c := range s.consumers() {
		if !c.subscribes() {
			continue
		}
		c.since, c.standby = 0, false
		if !single {
			s.waiters.wake(c)
			if c != before {
				s.tellActivity(c, true)
			}
			continue
		}
		number++
		c.since, c.standby = number, true
		s.waiters.leave(c)
		s.tellActivity(c, false)
	}
	s.elect()
}

// tellActivity tells a consumer whether it is the active one.
func (s *subscriptions) tellActivity(c *consumer, active bool) {
	s.notices = append(s.notices, activityNotice(c, active))
}

// activityNotice is what it is told.
func activityNotice(c *consumer, active bool) Notice {
	if active {
		return Notice{Consumer: c.key, Kind: NoticeActive}
	}
	return Notice{Consumer: c.key, Kind: NoticeWaiting}
}

// activity appends what the session's consumers are to know of who is active.
func (s *session) activity(dst []Notice, active *consumer) []Notice {
	for _, c := range s.consumers {
		if c.since > 0 {
			dst = append(dst, activityNotice(c, c == active))
		}
	}
	return dst
}

// restoreStandbys derives who stands by.
func (s *subscriptions) restoreStandbys() {
	best := s.favourite()
	for c := range s.consumers() {
		c.standby = c.since > 0 && (c != s.active || best != nil && best != c)
	}
}

// checkActive verifies who receives and who waits.
func (s *subscriptions) checkActive() error {
	best := s.favourite()
	seen := make(map[uint64]bool)
	for c := range s.consumers() {
		switch {
		case c.since > 0 != (s.single && c.subscribes()), seen[c.since] && c.since > 0:
			return inv("consumer %v is number %d of those that take turns", c.key, c.since)
		case c.standby != (c.since > 0 && (c != s.active || best != nil && best != c)):
			return inv("consumer %v stands by %t, active is %t", c.key, c.standby, c == s.active)
		}
		seen[c.since] = true
	}
	a := s.active
	if a == nil && best != nil || a != nil && (s.consumer(a.key) != a || best != nil && best != a && a.held.live == 0) {
		return inv("the active consumer is not the one that should be")
	}
	return nil
}
