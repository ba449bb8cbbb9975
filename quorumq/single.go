package quorumq

// enrol gives a consumer its place in the order of registration, before it subscribes.
func (q *Queue) enrol(c *consumer) {
	if !q.config.SingleActive {
		return
	}
	newest := uint64(0)
	for _, s := range q.order {
		for _, o := range s.consumers {
			newest = max(newest, o.since)
		}
	}
	c.since, c.standby = newest+1, true
}

// contend lets a consumer that has just subscribed become the active one, and tells it
// whether it is.
func (q *Queue) contend(c *consumer) {
	if !q.config.SingleActive {
		return
	}
	was := q.active == c
	q.elect()
	if is := q.active == c; is == was { // else elect has told
		q.tellActivity(c, is)
	}
}

// resign takes a consumer that does not subscribe any more out of the choice.
func (q *Queue) resign(c *consumer) {
	c.since, c.standby = 0, false
	if q.active == c {
		q.active = nil
	}
}

// favourite returns the consumer that should be active: not timed out, of the
// highest priority, then the
// one that is, then the one that registered first; nil if no consumer can be (SAC-1).
func (q *Queue) favourite() *consumer {
	if !q.config.SingleActive {
		return nil
	}
	var best *consumer
	for _, s := range q.order {
		for _, c := range s.consumers {
			if c.subscribes() && !s.closed && !s.node.suspected && len(c.late) == 0 && (best == nil || q.preferred(c, best)) {
				best = c
			}
		}
	}
	return best
}

func (q *Queue) preferred(c, to *consumer) bool {
	switch {
	case c.priority != to.priority:
		return c.priority > to.priority
	case c == q.active || to == q.active:
		return c == q.active
	default:
		return c.since < to.since
	}
}

// elect sees to it that the favourite is active. One that is not the favourite any more
// gets nothing new, and stays active until it holds nothing (SAC-2).
func (q *Queue) elect() {
	if !q.config.SingleActive {
		return
	}
	best := q.favourite()
	if a := q.active; a != nil && best != nil && a != best {
		q.leaveLine(a)
		a.standby = true
		if a.held.live > 0 {
			return
		}
		q.active = nil
		q.tellActivity(a, false)
	}
	if q.active == nil && best != nil {
		q.active = best
		q.tellActivity(best, true)
	}
	if q.active != nil {
		q.active.standby = false
		q.wake(q.active)
	}
}

// standbys derives who stands by, in a queue that was restored.
func (q *Queue) standbys() {
	best := q.favourite()
	for _, s := range q.order {
		for _, c := range s.consumers {
			c.standby = c.since > 0 && (c != q.active || best != nil && best != c)
		}
	}
}

// setSingleActive follows a change of the configuration.
func (q *Queue) setSingleActive(was bool) {
	if was == q.config.SingleActive {
		return
	}
	before := q.active
	q.active = nil
	number := uint64(0)
	for _, s := range q.order {
		for _, c := range s.consumers {
			if !c.subscribes() {
				continue
			}
			c.since, c.standby = 0, false
			if was {
				q.wake(c)
				if c != before {
					q.tellActivity(c, true)
				}
				continue
			}
			number++
			c.since, c.standby = number, true
			q.leaveLine(c)
			q.tellActivity(c, false)
		}
	}
	q.elect()
}

func (q *Queue) tellActivity(c *consumer, active bool) {
	q.effects.Notices = append(q.effects.Notices, activityNotice(c, active))
}

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

// Activity appends the notices that tell a session's consumers which of them is the active
// one; none where all are.
func (q *Queue) Activity(dst []Notice, k SessionKey) []Notice {
	if s := q.sessions[k]; s != nil {
		dst = s.activity(dst, q.active)
	}
	return dst
}

// Active returns the active consumer of a queue that has one at a time (SAC-1).
func (q *Queue) Active() (ConsumerKey, bool) {
	if q.active == nil {
		return ConsumerKey{}, false
	}
	return q.active.key, true
}
