package quorumq

import "slices"

// subscriptions is who takes messages, what they hold of them, and the notices for them.
//
// Invariants, see check: those of its parts, and
//   - order has each session once, and sessions finds it; its node is in the session's epoch and
//     has not closed it;
//   - exclusive is the one consumer that bars others, and then there is no other (CO-2);
//   - whoever may take a message waits.
type subscriptions struct {
	sessions  map[SessionKey]*session
	order     sessions // all of them
	waiters   waiters
	unacked   unacked
	deadlines ackDeadlines
	single    singleActive
	// exclusive is the consumer that bars others (CO-2), nil if there is none.
	exclusive *consumer
	// baseID is the newest MsgID of all consumers whose sessions were timed out (DC-1):
	// such a session may come back, and its consumers number on from there, so that a
	// late repeat of an old Settle never hits a new message.
	baseID MsgID
	gen    uint64 // generation of the windows: how many times they were frozen

	notices notices
	// leaving is what consumers have lost in the command that is applied, until it is requeued.
	leaving []leaving
	closing []*session // scratch of sessionsOf
}

// init makes it empty, for a queue with a single active consumer or not.
func (s *subscriptions) init(single bool) {
	s.sessions = make(map[SessionKey]*session)
	s.unacked.next = 1
	s.single.on = single
}

// elect sees to it that the right consumer is active, if one is.
func (s *subscriptions) elect() { s.single.elect(s.order, &s.waiters, &s.notices) }

// consumer returns the consumer with this key, nil if there is none.
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

// sessionsOf returns the sessions of nodes that which chooses, in order.
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

// hasSession reports whether a node has one.
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

// barred reports whether exclusive access stands against a checkout (CO-2).
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

// register returns the consumer with this key; it is made if it is not there.
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

// subscribe lets a consumer take messages on a Checkout's terms.
func (s *subscriptions) subscribe(c *consumer, to *Checkout) {
	s.waiters.leave(c)
	s.single.enrol(c, s.order)
	c.set(to)
	s.setExclusive(c, to.Exclusive)
	s.waiters.wake(c)
	s.single.contend(c, s.order, &s.waiters, &s.notices)
}

// unsubscribe lets a consumer take no more messages; what it holds stays with it.
func (s *subscriptions) unsubscribe(c *consumer) {
	c.cancelled, c.late = true, nil
	s.setExclusive(c, false)
	s.waiters.leave(c)
	s.single.resign(c)
}

// setExclusive notes whether a consumer bars others.
func (s *subscriptions) setExclusive(c *consumer, exclusive bool) {
	c.exclusive = exclusive
	switch {
	case exclusive:
		s.exclusive = c
	case s.exclusive == c:
		s.exclusive = nil
	}
}

// dismiss removes a consumer that holds nothing any more; its session stays.
func (s *subscriptions) dismiss(c *consumer) {
	x := c.session
	x.base = max(x.base, c.last)
	s.waiters.leave(c)
	i, _ := x.search(c.key.Tag)
	x.consumers = slices.Delete(x.consumers, i, i+1)
}

// settled lets a consumer that holds less go on, or go.
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

// trust ends a suspicion, if there is one: the node has spoken, and its consumers go on.
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

// timeOut notifies the consumers of sessions that the queue ends these (DC-1).
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

// close ends sessions. What they hold is in leaving then, to be requeued; unsent is what of it
// never left. It reports whether a consumer has gone with them.
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

// has reports whether a message of the consumer with a tag is one of them.
func (u *Unsent) has(tag uint32, m MsgID) bool {
	return tag == u.Tag && slices.ContainsFunc(u.Ranges, func(r MsgIDRange) bool { return r.First <= m && m <= r.Last })
}

// revokeDue takes from consumers what they have had for too long, into leaving, to be requeued in
// the order of its assignment and not failed (CT-2). It returns how many messages that are.
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

// answerLate notes that a consumer has decided about deliveries that timed out; when it has
// about all, it gets new ones (CT-2).
func (s *subscriptions) answerLate(c *consumer, ranges []MsgIDRange) {
	if c.answer(ranges) {
		s.waiters.wake(c)
		s.elect() // SAC-5
	}
}

// announceLeader notifies each session that there is another leader, and then who is active.
func (s *subscriptions) announceLeader() {
	for _, x := range s.order {
		s.notices.leader(x)
	}
	for _, x := range s.order {
		s.single.announce(x, &s.notices)
	}
}
