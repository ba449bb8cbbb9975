package quorumq

import "slices"

// subscriptions holds the sessions and consumers, the messages that they hold, and the notices for
// them.
//
// Invariants, see check: those of its parts, and
//   - order has each session once, and sessions finds it; its node has the session's epoch, and
//     has not closed it;
//   - exclusive is the consumer that bars others, and then there is no other (CO-2);
//   - every consumer that may take a message is in line.
type subscriptions struct {
	sessions  map[SessionKey]*session
	order     sessions // all of them
	waiters   waiters
	unacked   unacked
	deadlines ackDeadlines
	single    singleActive
	// exclusive is the consumer that bars others (CO-2), or nil.
	exclusive *consumer
	// baseID is the newest MsgID of all consumers whose sessions were timed out (DC-1). Such a
	// session may come back; the numbers of its consumers then continue from there, so that a late
	// repeat of an old Settle never matches a new message.
	baseID MsgID
	gen    uint64 // generation of the windows: how often they were frozen

	notices notices
	// leaving has the messages that consumers have lost in the present command, until they are
	// requeued.
	leaving []leaving
	closing []*session // scratch of sessionsOf
}

// init makes it empty. single says whether the queue has a single active consumer.
func (s *subscriptions) init(single bool) {
	s.sessions = make(map[SessionKey]*session)
	s.unacked.next = 1
	s.single.on = single
}

// elect makes the right consumer active, in a queue with a single active consumer.
func (s *subscriptions) elect() { s.single.elect(s.order, &s.waiters, &s.notices) }

// consumer returns the consumer with this key, or nil.
func (s *subscriptions) consumer(k ConsumerKey) *consumer {
	x := s.sessions[k.SessionKey]
	if x == nil {
		return nil
	}
	if i, ok := x.search(k.Tag); ok {
		return x.consumers[i]
	}
	return nil
}

// sessionsOf returns the sessions of the nodes that which chooses, in order.
func (s *subscriptions) sessionsOf(which func(*node) bool) []*session {
	s.closing = s.closing[:0]
	for _, x := range s.order {
		if which(x.node) {
			s.closing = append(s.closing, x)
		}
	}
	return s.closing
}

// sessionOf returns the session with this key, in the form of sessionsOf.
func (s *subscriptions) sessionOf(k SessionKey) []*session {
	s.closing = s.closing[:0]
	if x := s.sessions[k]; x != nil {
		s.closing = append(s.closing, x)
	}
	return s.closing
}

// hasSession reports whether a node has a session.
func (s *subscriptions) hasSession(n *node) bool {
	return slices.ContainsFunc(s.order, func(x *session) bool { return x.node == n })
}

// subscribed reports whether there is a consumer.
func (s *subscriptions) subscribed() bool {
	for _, x := range s.order {
		if slices.ContainsFunc(x.consumers, (*consumer).subscribes) {
			return true
		}
	}
	return false
}

// barred reports whether exclusive access forbids a checkout (CO-2).
func (s *subscriptions) barred(c *Checkout) bool {
	if s.exclusive != nil && s.exclusive.key != c.Consumer {
		return true
	}
	if !c.Exclusive {
		return false
	}
	for o := range s.order.consumers() {
		if o.subscribes() && o.key != c.Consumer {
			return true
		}
	}
	return false
}

// register returns the consumer with this key, and creates it if there is none.
func (s *subscriptions) register(n *node, k ConsumerKey) *consumer {
	x := s.sessions[k.SessionKey]
	if x == nil {
		x = &session{key: k.SessionKey, node: n}
		s.sessions[k.SessionKey] = x
		i, _ := s.order.search(k.SessionKey)
		s.order = slices.Insert(s.order, i, x)
	}
	i, ok := x.search(k.Tag)
	if !ok {
		c := &consumer{key: k, session: x, last: max(s.baseID, x.base), prefetch: MaxOutstanding}
		x.consumers = slices.Insert(x.consumers, i, c)
	}
	return x.consumers[i]
}

// subscribe lets a consumer take messages, with the settings of a Checkout.
func (s *subscriptions) subscribe(c *consumer, to *Checkout) {
	s.waiters.leave(c)
	s.single.enrol(c, s.order)
	c.set(to)
	s.setExclusive(c, to.Exclusive)
	s.waiters.wake(c)
	s.single.contend(c, s.order, &s.waiters, &s.notices)
}

// unsubscribe stops a consumer from taking messages; it keeps what it holds.
func (s *subscriptions) unsubscribe(c *consumer) {
	c.cancelled, c.late = true, nil
	s.setExclusive(c, false)
	s.waiters.leave(c)
	s.single.resign(c)
}

// setExclusive records whether a consumer bars others.
func (s *subscriptions) setExclusive(c *consumer, exclusive bool) {
	c.exclusive = exclusive
	switch {
	case exclusive:
		s.exclusive = c
	case s.exclusive == c:
		s.exclusive = nil
	}
}

// dismiss removes a consumer that no longer holds anything; its session stays.
func (s *subscriptions) dismiss(c *consumer) {
	x := c.session
	x.base = max(x.base, c.last)
	s.waiters.leave(c)
	i, _ := x.search(c.key.Tag)
	x.consumers = slices.Delete(x.consumers, i, i+1)
}

// settled lets a consumer that holds less than before go on; or removes it, if it was cancelled and
// holds nothing.
func (s *subscriptions) settled(c *consumer) {
	if c.held.live == 0 && c.cancelled {
		s.dismiss(c)
		return
	}
	s.waiters.wake(c)
	if c.standby && c == s.single.active && c.held.live == 0 {
		s.elect() // SAC-2
	}
}

// trust ends the suspicion of a node, if there is one: the node has sent a command, so its
// consumers go on.
func (s *subscriptions) trust(n *node, ns *nodes) {
	if !ns.clear(n) {
		return
	}
	for _, x := range s.order {
		if x.node == n {
			for _, c := range x.consumers {
				s.waiters.wake(c)
			}
		}
	}
	s.elect()
}

// timeOut notifies the consumers of sessions that the queue ends these sessions (DC-1).
func (s *subscriptions) timeOut(late []*session) {
	for _, x := range late {
		s.baseID = max(s.baseID, x.base)
		for _, c := range x.consumers {
			s.baseID = max(s.baseID, c.last)
			if c.subscribes() {
				s.notices.cancelled(c)
			}
		}
	}
}

// close ends sessions. What their consumers hold is then in leaving, to be requeued; unsent says
// which of it never left the leader's node. It reports whether a consumer has gone with the
// sessions.
func (s *subscriptions) close(ss []*session, unsent Unsent) (consumed bool) {
	s.leaving = s.leaving[:0]
	for _, x := range ss {
		x.closed = true
		delete(s.sessions, x.key)
		for _, c := range x.consumers {
			consumed = consumed || c.subscribes()
			s.setExclusive(c, false)
			s.single.resign(c)
			for a := range c.held.all() {
				s.leaving = append(s.leaving, leaving{assigned: *a, unsent: unsent.has(c.key.Tag, a.id)})
			}
		}
	}
	if len(ss) == 1 {
		for _, c := range ss[0].consumers {
			s.waiters.leave(c)
		}
		i, _ := s.order.search(ss[0].key)
		s.order = slices.Delete(s.order, i, i+1)
	} else {
		s.waiters.sweep()
		s.order = slices.DeleteFunc(s.order, func(x *session) bool { return x.closed })
	}
	clear(s.closing)
	return consumed
}

// has reports whether a message of the consumer with a tag is in u.
func (u *Unsent) has(tag uint32, m MsgID) bool {
	return tag == u.Tag && slices.ContainsFunc(u.Ranges, func(r MsgIDRange) bool { return r.First <= m && m <= r.Last })
}

// revokeDue takes back what consumers have held for too long, and puts it into leaving, to be
// requeued in the order of assignment and not as failed (CT-2). It returns how many messages that
// are.
func (s *subscriptions) revokeDue(now Time) (revoked int) {
	if !s.deadlines.passed(now) {
		return 0
	}
	s.leaving = s.leaving[:0]
	for _, x := range s.order {
		for i := 0; i < len(x.consumers); i++ {
			c := x.consumers[i]
			s.leaving = s.deadlines.revoke(c, now, s.gen, s.leaving, &s.notices)
			if c.cancelled && c.held.live == 0 {
				s.dismiss(c)
				i--
			}
		}
	}
	return len(s.leaving)
}

// answerLate records that a consumer has decided about deliveries that timed out. When it has
// decided about all of them, it gets new ones (CT-2).
func (s *subscriptions) answerLate(c *consumer, ranges []MsgIDRange) {
	if c.answer(ranges) {
		s.waiters.wake(c)
		s.elect() // SAC-5
	}
}

// announceLeader notifies each session that there is a new leader, and then which consumers are
// active.
func (s *subscriptions) announceLeader() {
	for _, x := range s.order {
		s.notices.leader(x)
	}
	for _, x := range s.order {
		s.single.announce(x, &s.notices)
	}
}
