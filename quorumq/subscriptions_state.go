package quorumq

// Flags of a consumer.
const (
	flagCancelled = 8
	flagActive    = 16
	flagTimesOut  = 32
	consumerFlags = flagCredit | flagAutoAck | flagExclusive | flagCancelled | flagActive | flagTimesOut
)

// putSessions writes all sessions and consumers, but not the messages that they hold.
func (s *subscriptions) putSessions(b []byte) []byte {
	b = putU(b, uint64(len(s.order)))
	for _, x := range s.order {
		b = putU(putSession(b, x.key), uint64(x.base))
		b = putU(b, uint64(len(x.consumers)))
		for _, c := range x.consumers {
			b = putConsumerState(b, c, c == s.single.active)
			if s.single.on {
				b = putU(b, c.since)
			}
		}
	}
	return b
}

// putConsumerState writes one consumer.
func putConsumerState(b []byte, c *consumer, active bool) []byte {
	flags := byte(0)
	for i, set := range [...]bool{c.credit, c.autoAck, c.exclusive, c.cancelled, active, c.ownTimeout} {
		if set {
			flags |= 1 << i
		}
	}
	b = append(putU(b, uint64(c.key.Tag)), flags)
	b = putU(putU(b, uint64(c.prefetch)), uint64(c.limit))
	b = putZ(b, int64(c.priority))
	b = putU(b, uint64(c.last))
	if c.ownTimeout {
		b = putU(b, uint64(c.timeout))
	}
	b = putU(putU(b, uint64(c.due)), uint64(len(c.late)))
	last := MsgID(0)
	for _, m := range c.late {
		b = putU(b, uint64(m-last))
		last = m
	}
	return b
}

// putWaiters writes which consumers are in line.
func (s *subscriptions) putWaiters(b []byte) []byte {
	return s.waiters.put(b, func(x *session) uint64 {
		i, _ := s.order.search(x.key)
		return uint64(i)
	})
}

// restoreSessions reads sessions and consumers from a snapshot.
func (s *subscriptions) restoreSessions(r *reader, ns *nodes) {
	for range r.count(6) {
		x := &session{key: r.session(), base: MsgID(r.u())}
		x.node = ns.byID[x.key.Node]
		r.check(x.node != nil, errRange)
		for range r.count(6) {
			if c := s.restoreConsumer(r, x); r.err == nil {
				x.consumers = append(x.consumers, c)
			}
		}
		if r.err != nil {
			return
		}
		s.order = append(s.order, x)
		s.sessions[x.key] = x
	}
}

// restoreConsumer reads one consumer of a session.
func (s *subscriptions) restoreConsumer(r *reader, x *session) *consumer {
	c := &consumer{key: ConsumerKey{SessionKey: x.key, Tag: r.u32()}, session: x}
	flags := r.flags(consumerFlags)
	c.credit = flags&flagCredit != 0
	c.autoAck = flags&flagAutoAck != 0
	c.exclusive = flags&flagExclusive != 0
	c.cancelled = flags&flagCancelled != 0
	if c.exclusive {
		r.check(s.exclusive == nil && c.subscribes(), errRange)
		s.exclusive = c
	}
	c.prefetch = uint32(r.upTo(MaxOutstanding))
	c.limit = MsgID(r.u())
	priority := r.z()
	c.priority = int32(priority)
	r.check(int64(c.priority) == priority, errRange)
	c.last = MsgID(r.u())
	if r.knowsUse() {
		s.restoreAckDeadlines(r, c, flags)
	}
	if flags&flagActive != 0 {
		r.check(s.single.active == nil && s.single.on && c.subscribes(), errRange)
		s.single.active = c
	}
	if s.single.on {
		c.since = r.u()
		r.check(c.since > 0 == c.subscribes(), errRange)
	}
	return c
}

// restoreAckDeadlines reads the timeout and the deadline of a consumer.
func (s *subscriptions) restoreAckDeadlines(r *reader, c *consumer, flags byte) {
	if c.ownTimeout = flags&flagTimesOut != 0; c.ownTimeout {
		c.timeout = r.i()
	}
	c.due = Time(r.i())
	r.check(c.due == 0 || 0 < s.deadlines.due && s.deadlines.due <= c.due, errRange)
	last := MsgID(0)
	for range r.count(1) {
		more := MsgID(r.u())
		r.check(more > 0 && last+more > last && last+more <= c.last && c.subscribes(), errUnordered)
		last += more
		c.late = append(c.late, last)
	}
}

// restoreWindows reads what the consumers hold, in their order. It calls each with the annotations
// of every message.
func (s *subscriptions) restoreWindows(r *reader, each func(annotations BodyRef)) {
	for c := range s.order.consumers() {
		restoreWindow(r, c.due, func(a *assigned) {
			each(a.annotations())
			s.unacked.hold(c, a, s.gen)
		})
	}
}

// check returns an inconsistency, if there is one; nextOrd is the queue's next ordinal.
func (s *subscriptions) check(ns *nodes, now Time, nextOrd uint64) error {
	held, size := 0, uint64(0)
	for i, x := range s.order {
		if i > 0 && compareSessions(s.order[i-1].key, x.key) >= 0 {
			return inv("session %v after %v", x.key, s.order[i-1].key)
		}
		if err := s.checkSession(x, ns); err != nil {
			return err
		}
		for _, c := range x.consumers {
			n, b, err := s.checkWindow(c, now, nextOrd)
			if err != nil {
				return err
			}
			held += n
			size += b
		}
	}
	if held != s.unacked.messages || size != s.unacked.bytes || len(s.sessions) != len(s.order) {
		return inv("%d unsettled messages, %d bytes, counted %d, %d", held, size, s.unacked.messages, s.unacked.bytes)
	}
	if err := s.checkExclusive(); err != nil {
		return err
	}
	if err := s.single.check(s.order); err != nil {
		return err
	}
	return s.waiters.check(s.order)
}

// checkSession verifies that a session, its node and its consumers refer to one another.
func (s *subscriptions) checkSession(x *session, ns *nodes) error {
	if s.sessions[x.key] != x || x.node != ns.byID[x.key.Node] || x.node.epoch != x.key.Epoch {
		return inv("session %v stands alone", x.key)
	}
	if x.node.hasClosed(x.key.Session) {
		return inv("session %v is closed", x.key)
	}
	for j, c := range x.consumers {
		if c.key.SessionKey != x.key || c.session != x || x.closed || j > 0 && x.consumers[j-1].key.Tag >= c.key.Tag {
			return inv("consumer %v in session %v", c.key, x.key)
		}
	}
	return nil
}

// checkWindow verifies what a consumer holds, and returns its number and size.
func (s *subscriptions) checkWindow(c *consumer, now Time, nextOrd uint64) (n int, size uint64, err error) {
	w := &c.held
	var last MsgID
	for i := w.head; i < len(w.items); i++ {
		a := &w.items[i]
		if a.id <= last || a.id > c.last || a.number >= s.unacked.next {
			return 0, 0, inv("consumer %v holds id %d after %d of %d", c.key, a.id, last, c.last)
		}
		last = a.id
		if a.isRemoved() {
			continue
		}
		if err := a.check(now, nextOrd); err != nil {
			return 0, 0, err
		}
		if a.due != 0 && (c.due == 0 || a.due < c.due || s.deadlines.due == 0 || c.due < s.deadlines.due) {
			return 0, 0, inv("consumer %v is to give %d back at %d, looks at %d, the queue at %d", c.key, a.id, a.due, c.due, s.deadlines.due)
		}
		n++
		size += uint64(a.size)
	}
	if n != w.live || c.cancelled && n == 0 {
		return 0, 0, inv("consumer %v holds %d, counted %d", c.key, n, w.live)
	}
	return n, size, nil
}

// checkExclusive verifies which consumer bars others (CO-2).
func (s *subscriptions) checkExclusive() error {
	var exclusive *consumer
	subscribers := 0
	for c := range s.order.consumers() {
		if c.subscribes() {
			subscribers++
		}
		if c.exclusive {
			exclusive = c
		}
	}
	if exclusive != s.exclusive || exclusive != nil && (subscribers != 1 || !exclusive.subscribes()) {
		return inv("exclusive among %d subscribers", subscribers)
	}
	return nil
}
