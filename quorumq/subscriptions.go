package quorumq

import (
	"iter"
	"slices"
)

// subscriptions is who takes messages, what they hold of them, and what they are to be told.
//
// Invariants, see check:
//   - order has each session once, ascending, and sessions finds it; its node is in the session's
//     epoch and has not closed it;
//   - unacked counts what all consumers hold;
//   - leaseDue, unless 0, is no later than due of any consumer;
//   - exclusive is the one consumer that bars others, and then there is no other (CO-2);
//   - active follows from who has registered: see single_active.go;
//   - whoever may take a message waits: see waiters.
type subscriptions struct {
	sessions map[SessionKey]*session
	order    []*session // ascending by key
	waiters  waiters
	unacked  unacked
	// exclusive is the consumer that bars others (CO-2), nil if there is none.
	exclusive *consumer
	// single: one consumer receives, as Config.SingleActive says; active is it, nil if there is
	// none.
	single bool
	active *consumer
	// leaseDue: nothing that consumers hold is due before (CT-1); 0: nothing will be.
	leaseDue Time
	// baseID is the newest MsgID of all consumers whose sessions were timed out (DC-1):
	// such a session may come back, and its consumers number on from there, so that a
	// late repeat of an old Settle never hits a new message.
	baseID MsgID
	gen    uint64 // generation of the windows: how many times they were frozen

	// notices is what the command that is applied has to tell consumers, in this order.
	notices []Notice
	// leaving is what consumers have lost in the command that is applied, until it is requeued.
	leaving []leaving
	closing []*session // scratch of sessionsOf
}

// unacked counts what all consumers hold.
type unacked struct {
	messages int
	bytes    uint64
	next     uint64 // number of the next assignment, over all consumers
}

// leaving is a message on its way from a consumer back to the queue.
type leaving struct {
	assigned
	unsent bool // it never left the leader's node
}

// init makes it empty, for a queue with a single active consumer or not.
func (s *subscriptions) init(single bool) {
	s.sessions = make(map[SessionKey]*session)
	s.unacked.next = 1
	s.single = single
}

// consumers yields all of them, in the order of their keys.
func (s *subscriptions) consumers() iter.Seq[*consumer] {
	return func(yield func(*consumer) bool) {
		for _, x := range s.order {
			for _, c := range x.consumers {
				if !yield(c) {
					return
				}
			}
		}
	}
}

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

// search returns where a session stands in order.
func (s *subscriptions) search(k SessionKey) (int, bool) {
	return slices.BinarySearchFunc(s.order, k, func(x *session, k SessionKey) int {
		return compareSessions(x.key, k)
	})
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

// hasSession tells whether a node has one.
func (s *subscriptions) hasSession(n *node) bool {
	return slices.ContainsFunc(s.order, func(x *session) bool { return x.node == n })
}

// subscribed tells whether there is a consumer.
func (s *subscriptions) subscribed() bool {
	for _, x := range s.order {
		if slices.ContainsFunc(x.consumers, (*consumer).subscribes) {
			return true
		}
	}
	return false
}

// barred tells whether exclusive access stands against a checkout (CO-2).
func (s *subscriptions) barred(c *Checkout) bool {
	if s.exclusive != nil && s.exclusive.key != c.Consumer {
		return true
	}
	if !c.Exclusive {
		return false
	}
	for o := range s.consumers() {
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
		i, _ := s.search(k.SessionKey)
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
	if c.since == 0 {
		s.enrol(c)
	}
	c.set(to)
	s.setExclusive(c, to.Exclusive)
	s.waiters.wake(c)
	s.contend(c)
}

// unsubscribe lets a consumer take no more messages; what it holds stays with it.
func (s *subscriptions) unsubscribe(c *consumer) {
	c.cancelled, c.late = true, nil
	s.setExclusive(c, false)
	s.waiters.leave(c)
	s.resign(c)
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
	if c.standby && c == s.active && c.held.live == 0 {
		s.elect() // SAC-2
	}
}

// wakeNode lets the consumers of a node go on that was suspected.
func (s *subscriptions) wakeNode(n *node) {
	for _, x := range s.order {
		if x.node == n {
			for _, c := range x.consumers {
				s.waiters.wake(c)
			}
		}
	}
	s.elect()
}

// timeOut tells the consumers of sessions that these end against their will (DC-1).
func (s *subscriptions) timeOut(late []*session) {
	for _, x := range late {
		s.baseID = max(s.baseID, x.base)
		for _, c := range x.consumers {
			s.baseID = max(s.baseID, c.last)
			if c.subscribes() {
				s.notices = append(s.notices, Notice{Consumer: c.key, Kind: NoticeCancelled})
			}
		}
	}
}

// close ends sessions. What they hold is in leaving then, to be requeued; unsent is what of it
// never left. It tells whether a consumer has gone with them.
func (s *subscriptions) close(ss []*session, unsent Unsent) (consumed bool) {
	s.leaving = s.leaving[:0]
	for _, x := range ss {
		x.closed = true
		delete(s.sessions, x.key)
		for _, c := range x.consumers {
			consumed = consumed || c.subscribes()
			s.setExclusive(c, false)
			s.resign(c)
			for a := range c.held.all() {
				s.leaving = append(s.leaving, leaving{assigned: *a, unsent: unsent.has(c.key.Tag, a.id)})
			}
		}
	}
	if len(ss) == 1 {
		for _, c := range ss[0].consumers {
			s.waiters.leave(c)
		}
		i, _ := s.search(ss[0].key)
		s.order = slices.Delete(s.order, i, i+1)
	} else {
		s.waiters.sweep()
		s.order = slices.DeleteFunc(s.order, func(x *session) bool { return x.closed })
	}
	clear(s.closing)
	return consumed
}

// has tells whether a message of the consumer with a tag is one of them.
func (u *Unsent) has(tag uint32, m MsgID) bool {
	return tag == u.Tag && slices.ContainsFunc(u.Ranges, func(r MsgIDRange) bool { return r.First <= m && m <= r.Last })
}

// assign numbers a message for a consumer.
func (s *subscriptions) assign(c *consumer, h *held) assigned {
	c.last++
	a := assigned{held: *h, id: c.last, turn: s.unacked.next}
	s.unacked.next++
	return a
}

// hold gives a consumer a message that is numbered for it, until it settles or gives it back.
func (s *subscriptions) hold(c *consumer, a *assigned) {
	c.held.push(*a, s.gen)
	s.unacked.messages++
	s.unacked.bytes += uint64(a.size)
}

// remove accounts for a message that its consumer no longer holds.
func (u *unacked) remove(size uint32) {
	u.messages--
	u.bytes -= uint64(size)
}

// announceLeader tells each session that there is another leader, at its consumer with the lowest
// tag (0 if it has none), and then who is active.
func (s *subscriptions) announceLeader() {
	for _, x := range s.order {
		k := ConsumerKey{SessionKey: x.key}
		if len(x.consumers) > 0 {
			k = x.consumers[0].key
		}
		s.notices = append(s.notices, Notice{Consumer: k, Kind: NoticeLeader})
	}
	for _, x := range s.order {
		s.notices = x.activity(s.notices, s.active)
	}
}
