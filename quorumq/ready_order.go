package quorumq

import "math/bits"

// firstPosition returns the entry of the oldest returned message of a level.
func (r *ready) firstPosition(l int) (listEntry, bool) {
	for len(r.positions.heaps[l].entries) > 0 {
		e := r.positions.heaps[l].entries[0]
		if r.returned.has(e.number) {
			return e, true
		}
		r.positions.pop(l)
	}
	return listEntry{}, false
}

// position is where the message that would be delivered next is.
type position struct {
	level  int
	number uint64 // in the returned list; 0: the front of its level
	ok     bool
}

// nextPosition returns the position of the message that would be delivered next. Returned messages come first (DEL-1),
// unless they return to their original positions. Then comes the highest level, or the one whose turn it is (PR-3),
// with its oldest message first.
func (r *ready) nextPosition(c *Config) position {
	occupied := r.occupied
	if r.positions == nil {
		if x := r.returned.front(); x != nil {
			return position{number: x.number, ok: true}
		}
	} else {
		occupied |= r.positions.occupied
	}
	for occupied != 0 {
		l := bits.Len32(occupied) - 1
		if c.FairPriorities {
			l = r.roundRobin.of(occupied)
		}
		front := r.levels[l].front()
		if r.positions != nil {
			if e, ok := r.firstPosition(l); ok && (front == nil || e.ord < front.ord) {
				return position{level: l, number: e.number, ok: true}
			}
		}
		if front != nil {
			return position{level: l, ok: true}
		}
		occupied &^= 1 << l
	}
	return position{}
}

// next returns the message that would be delivered next, nil if none is ready. It may only be read, and only until the
// order changes.
func (r *ready) next(c *Config) *message {
	t := r.nextPosition(c)
	switch {
	case !t.ok:
		return nil
	case t.number == 0:
		return r.levels[t.level].front()
	case r.positions == nil:
		return &r.returned.front().message
	}
	x, _ := r.returned.get(t.number)
	r.seen = x.message
	return &r.seen
}

// popNext removes the message that next returns.
func (r *ready) popNext(c *Config) held {
	t := r.nextPosition(c)
	if t.number == 0 || r.positions != nil {
		if c.FairPriorities {
			r.roundRobin.took(t.level)
		}
	}
	if t.number == 0 {
		return r.popFront(t.level)
	}
	return r.removeReturned(t.number)
}

// popVictim removes the message that drop-head removes (LEN-3). There must be one.
func (r *ready) popVictim(c *Config) held {
	if c.Victim == VictimHead {
		return r.popNext(c)
	}
	victim, found := r.victims.first(func(e listEntry) bool { return r.returned.has(e.number) })
	number := victim.number
	for l := range r.occupiedLevels() {
		e := victimEntry(r.levels[l].front(), 0, c.Victim)
		if !found || e.before(victim) {
			victim, number, found = e, 0, true
		}
	}
	if number > 0 {
		r.victims.pop()
		return r.removeReturned(number)
	}
	return r.popFront(int(victim.ord & (levels - 1)))
}

// victimEntry returns the entry of a message in the order of victims.
func victimEntry(m *message, number uint64, v Victim) listEntry {
	e := listEntry{ord: m.ord, number: number}
	if v == VictimLowestPriority {
		e.at = Time(m.level())
	}
	return e
}

// arrange adds a message of the returned list to the orders that are kept for the list.
func (r *ready) arrange(x *returned, c *Config) {
	if c.Victim != VictimHead {
		r.victims.push(victimEntry(&x.message, x.number, c.Victim))
	}
	if r.positions != nil {
		r.positions.push(x)
	}
}

// rearrange rebuilds these orders for a configuration.
func (r *ready) rearrange(c *Config) {
	r.victims.entries, r.positions = nil, nil
	if c.ReturnToPlace {
		r.positions = new(originalPositions)
	}
	if !c.FairPriorities {
		r.roundRobin = weightedRoundRobin{}
	}
	if r.positions == nil && c.Victim == VictimHead {
		return
	}
	for x := range r.returned.all() {
		r.arrange(x, c)
	}
}

// tidy rebuilds them when they have too many entries without a message.
func (r *ready) tidy(c *Config) {
	if most := 2*r.returned.len() + maxStale; len(r.victims.entries) > most || r.positions != nil && r.positions.entries > most {
		r.rearrange(c)
	}
}

// init makes it empty.
func (r *ready) init(c *Config) {
	r.nextOrd, r.nextReturn = 1, 1
	r.returned.pool = &r.returnedPool
	r.rearrange(c)
}

// reset removes all messages; the numbers continue.
func (r *ready) reset(c *Config) {
	for l := range r.occupiedLevels() {
		r.levels[l].reset()
	}
	r.returned.reset()
	r.occupied, r.mixed, r.inLevels, r.bytes = 0, 0, 0, 0
	r.rearrange(c)
}

// pushReturned appends a message to the returned list and returns its number there.
func (r *ready) pushReturned(h *held, c *Config) uint64 {
	x := returned{held: *h, number: r.nextReturn}
	r.nextReturn++
	r.returned.push(x.number, x)
	r.bytes += uint64(h.size)
	r.arrange(&x, c)
	return x.number
}
