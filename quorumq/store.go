package quorumq

// store holds the messages that no consumer holds: ready ones and delayed ones, and an index of
// when they expire. It changes all three together.
//
// Invariants: those of its parts; in addition, each message of ready or delays that expires has its
// entry in expiry.
type store struct {
	ready  ready
	delays delays
	expiry expiry
}

// init makes the store empty.
func (s *store) init(c *Config) {
	s.ready.init(c)
	s.delays.init()
}

// len returns the number of messages.
func (s *store) len() int { return s.ready.len() + s.delays.set.len() }

// bytes returns the size of the messages' bodies.
func (s *store) bytes() uint64 { return s.ready.bytes + s.delays.bytes }

// push appends a message to its level. Its ordinal must be the newest.
func (s *store) push(m *message, c *Config) {
	s.ready.push(m)
	if at := m.expires(c.MessageTTLMs); at != 0 {
		s.expiry.levels.push(ordEntry{at: at, ord: m.ord})
	}
}

// pushReturned appends a message that was assigned before to the returned list.
func (s *store) pushReturned(h *held, c *Config) {
	number := s.ready.pushReturned(h, c)
	if at := h.expires(c.MessageTTLMs); at != 0 {
		s.expiry.returned.push(listEntry{at: at, ord: h.ord, number: number})
	}
}

// delay keeps a message until a time.
func (s *store) delay(h *held, until Time, c *Config) {
	d := s.delays.push(h, until)
	if e, ok := d.expires(c.MessageTTLMs); ok {
		s.expiry.delayed.push(e)
	}
}

// promote makes the delayed message ready that is due first: in the returned list (DR-3), or as a
// new message of its level (DLY-1). It returns false if none is delayed.
func (s *store) promote(now Time, c *Config) bool {
	d, ok := s.delays.popFirst()
	if !ok {
		return false
	}
	if !d.fresh() {
		s.pushReturned(&d.held, c)
		return true
	}
	r := &s.ready
	m := d.message
	m.ord |= r.nextOrd << ordBits
	m.at = now
	r.nextOrd++
	if r.levels[m.level()].len() > 0 { // its body is older than theirs
		r.mixed |= 1 << m.level()
	}
	s.push(&m, c)
	return true
}

// popVictim removes the message that drop-head removes; it returns false if there is none (LEN-3).
// If no message is ready, it removes the delayed message that is due first.
func (s *store) popVictim(c *Config) (held, bool) {
	if s.ready.len() > 0 {
		return s.ready.popVictim(c), true
	}
	d, ok := s.delays.popFirst()
	return d.held, ok
}

// popHead removes the message that would be delivered next; if none is ready, the delayed message
// that is due first. It returns false if nothing is left.
func (s *store) popHead(c *Config) (held, bool) {
	if s.ready.len() > 0 {
		return s.ready.popNext(c), true
	}
	d, ok := s.delays.popFirst()
	return d.held, ok
}

// nothingDue reports, at little cost, whether no message expires or becomes ready up to t.
func (s *store) nothingDue(t Time) bool {
	return s.expiry.nothingDue(t) && (len(s.delays.due.entries) == 0 || s.delays.due.entries[0].at > t)
}

// firstDue returns when the first message expires or becomes ready, 0 for never.
func (s *store) firstDue() Time {
	e, _ := s.expiry.first(&s.ready, &s.delays)
	if d, ok := s.delays.first(); ok && (e.at == 0 || d.at < e.at) {
		return d.at
	}
	return e.at
}

// handled is what handleDue did.
type handled uint8

const (
	handledNothing handled = iota
	handledExpiry
	handledDelay
)

// handleDue handles the message that is due first, in the order of (time, ordinal) (TTL-5, DL-11).
// A message that expires is removed; a delayed one becomes ready (DR-3). If a message would do both
// at the same time, it expires.
func (s *store) handleDue(now Time, c *Config) (held, handled) {
	first, in := s.expiry.first(&s.ready, &s.delays)
	d, waits := s.delays.first()
	if waits && d.at <= now && (in == nowhere || d.at < first.at) {
		s.promote(now, c)
		return held{}, handledDelay
	}
	if in == nowhere || first.at > now {
		return held{}, handledNothing
	}
	return s.popExpired(first, in), handledExpiry
}

// popExpired removes the message that expires first.
func (s *store) popExpired(first listEntry, in foundIn) (h held) {
	switch in {
	case inLevels:
		h.message, _ = s.ready.removeOrd(first.ord)
		s.expiry.levels.pop()
	case inReturned:
		h = s.ready.removeReturned(first.number)
		s.expiry.returned.pop()
	case inDelayed:
		h = s.delays.remove(first.number).held
		s.expiry.delayed.pop()
	case nowhere:
	}
	return h
}

// rebuildExpiry rebuilds the heaps after message-ttl has changed.
func (s *store) rebuildExpiry(c *Config) {
	s.expiry.rebuildLevels(&s.ready, c.MessageTTLMs)
	s.expiry.rebuildReturned(&s.ready, c.MessageTTLMs)
	s.expiry.rebuildDelayed(&s.delays, c.MessageTTLMs)
}

// tidy rebuilds heaps that have too many entries without a message.
func (s *store) tidy(c *Config) {
	if len(s.expiry.levels.entries) > 2*s.ready.inLevels+maxStale {
		s.expiry.rebuildLevels(&s.ready, c.MessageTTLMs)
	}
	if len(s.expiry.returned.entries) > 2*s.ready.returned.len()+maxStale {
		s.expiry.rebuildReturned(&s.ready, c.MessageTTLMs)
	}
	if most := 2*s.delays.set.len() + maxStale; len(s.delays.due.entries) > most || len(s.expiry.delayed.entries) > most {
		s.delays.rebuild()
		s.expiry.rebuildDelayed(&s.delays, c.MessageTTLMs)
	}
	s.ready.tidy(c)
}

// resetReady removes the ready messages.
func (s *store) resetReady(c *Config) {
	s.ready.reset(c)
	s.expiry.levels.entries, s.expiry.returned.entries = nil, nil
}

// resetDelays removes the delayed messages.
func (s *store) resetDelays() {
	s.delays.reset()
	s.expiry.delayed.entries = nil
}

// setGeneration records that the state of older generations was frozen.
func (s *store) setGeneration(gen uint64) {
	s.ready.levelPool.gen, s.ready.returnedPool.gen, s.delays.pool.gen = gen, gen, gen
}

// restoreLevels reads the messages of the levels from a snapshot.
func (s *store) restoreLevels(from *reader, c *Config) {
	s.ready.restoreLevels(from, func(m *message) {
		if at := m.expires(c.MessageTTLMs); at != 0 {
			s.expiry.levels.entries = append(s.expiry.levels.entries, ordEntry{at: at, ord: m.ord})
		}
	})
	s.expiry.levels.order()
}

// restoreReturned reads the returned list from a snapshot.
func (s *store) restoreReturned(from *reader, c *Config, each func(annotations BodyRef)) {
	s.ready.restoreReturned(from, c, each)
	s.expiry.rebuildReturned(&s.ready, c.MessageTTLMs)
}

// restoreDelays reads the delayed messages from a snapshot.
func (s *store) restoreDelays(from *reader, c *Config, each func(annotations BodyRef)) {
	s.delays.restore(from, each)
	s.expiry.rebuildDelayed(&s.delays, c.MessageTTLMs)
}
