package quorumq

import "math/bits"

// rota is whose turn it is among the levels of a queue whose priorities are shares (PR-3):
// from the highest down, level l has l+1 messages at a time.
type rota struct {
	level uint8
	left  uint8 // of its turn
}

// of returns the level whose turn it is among those of the bits, which are not 0.
func (r *rota) of(occupied uint32) int {
	if r.left > 0 && occupied&(1<<r.level) != 0 {
		return int(r.level)
	}
	if below := occupied & (1<<r.level - 1); below != 0 {
		occupied = below
	}
	return bits.Len32(occupied) - 1
}

// took notes that a message of a level was taken.
func (r *rota) took(level int) {
	if r.left > 0 && int(r.level) == level {
		r.left--
		return
	}
	r.level, r.left = uint8(level), uint8(level)
}

// seats finds the returned messages by where they stood before, level by level, where
// they go back to that place. The heaps hold ordinals; entries whose message has left
// stay as those of expiries do.
type seats struct {
	heaps    [levels]expiries[backExpiry]
	occupied uint32 // levels with entries
	entries  int
}

func (p *seats) push(r *returned) {
	l := r.level()
	p.heaps[l].push(backExpiry{ord: r.ord, number: r.number})
	p.occupied |= 1 << l
	p.entries++
}

func (p *seats) pop(l int) {
	p.heaps[l].pop()
	p.entries--
	if len(p.heaps[l].heap) == 0 {
		p.occupied &^= 1 << l
	}
}

// firstPlace returns the number of the oldest returned message of a level.
func (q *Queue) firstPlace(l int) (backExpiry, bool) {
	for len(q.seats.heaps[l].heap) > 0 {
		e := q.seats.heaps[l].heap[0]
		if q.back.has(e.number) {
			return e, true
		}
		q.seats.pop(l)
	}
	return backExpiry{}, false
}

// turn is where the message stands that would be delivered next.
type turn struct {
	level  int
	number uint64 // in the returned list; 0: the front of its level
	ok     bool
}

// nextTurn returns it: returned ones first (DEL-1), unless they go back to their seats,
// then the highest level, or the one whose turn it is (PR-3), the oldest first.
func (q *Queue) nextTurn() turn {
	occupied := q.occupied
	if q.seats == nil {
		if r := q.back.front(); r != nil {
			return turn{number: r.number, ok: true}
		}
	} else {
		occupied |= q.seats.occupied
	}
	for occupied != 0 {
		l := bits.Len32(occupied) - 1
		if q.config.FairPriorities {
			l = q.rota.of(occupied)
		}
		front := q.ready[l].front()
		if q.seats != nil {
			if e, ok := q.firstPlace(l); ok && (front == nil || e.ord < front.ord) {
				return turn{level: l, number: e.number, ok: true}
			}
		}
		if front != nil {
			return turn{level: l, ok: true}
		}
		occupied &^= 1 << l
	}
	return turn{}
}

// next returns the message that would be delivered next, nil if none is ready. It is for
// reading until the queue changes.
func (q *Queue) next() *message {
	t := q.nextTurn()
	switch {
	case !t.ok:
		return nil
	case t.number == 0:
		return q.ready[t.level].front()
	case q.seats == nil:
		return &q.back.front().message
	}
	r, _ := q.back.get(t.number)
	q.seen = r.message
	return &q.seen
}

// takeNext removes what next returned.
func (q *Queue) takeNext() held {
	t := q.nextTurn()
	if t.number == 0 || q.seats != nil {
		if q.config.FairPriorities {
			q.rota.took(t.level)
		}
	}
	if t.number == 0 {
		return q.takeFront(t.level)
	}
	return q.pullReturned(t.number)
}

// takeFront removes the oldest message of a level.
func (q *Queue) takeFront(l int) held {
	h := held{message: *q.ready[l].front()}
	q.ready[l].pop()
	q.left(l, h.size)
	return h
}

// pullReturned removes a message of the returned list.
func (q *Queue) pullReturned(number uint64) held {
	var h held
	if front := q.back.front(); front.number == number {
		h = front.held
		q.back.pop()
	} else {
		r, _ := q.back.take(number)
		h = r.held
	}
	q.readySize -= uint64(h.size)
	return h
}

// takeVictim removes what drop-head takes; false if the queue has nothing that it could
// (LEN-3). Delayed messages go when none is ready, the one that is due first.
func (q *Queue) takeVictim() (held, bool) {
	switch {
	case q.readyLen() == 0:
		return q.pullDelayed()
	case q.config.Victim == VictimHead:
		return q.takeNext(), true
	}
	victim, found := q.firstVictim()
	number := victim.number
	for l := range q.occupiedLevels() {
		m := q.ready[l].front()
		e := q.victimEntry(m, 0)
		if !found || e.before(victim) {
			victim, number, found = e, 0, true
		}
	}
	if number > 0 {
		q.victims.pop()
		return q.pullReturned(number), true
	}
	return q.takeFront(int(victim.ord & (levels - 1))), true
}

// pullDelayed removes the delayed message that is due first; false if none is delayed.
func (q *Queue) pullDelayed() (held, bool) {
	e, ok := q.firstDelayed()
	if !ok {
		return held{}, false
	}
	q.delays.due.pop()
	d := q.takeDelayed(e.number)
	return d.held, true
}

// victimEntry is where a message stands in the order of victims.
func (q *Queue) victimEntry(m *message, number uint64) backExpiry {
	e := backExpiry{ord: m.ord, number: number}
	if q.config.Victim == VictimLowestPriority {
		e.at = Time(m.level())
	}
	return e
}

// firstVictim returns the entry of the first victim in the returned list.
func (q *Queue) firstVictim() (backExpiry, bool) {
	for len(q.victims.heap) > 0 {
		e := q.victims.heap[0]
		if q.back.has(e.number) {
			return e, true
		}
		q.victims.pop()
	}
	return backExpiry{}, false
}

// arrange notes where a message of the returned list stands in the orders that are kept
// of it.
func (q *Queue) arrange(r *returned) {
	if q.config.Victim != VictimHead {
		q.victims.push(q.victimEntry(&r.message, r.number))
	}
	if q.seats != nil {
		q.seats.push(r)
	}
}

// rearrange makes these orders anew.
func (q *Queue) rearrange() {
	q.victims.heap, q.seats = nil, nil
	if q.config.ReturnToPlace {
		q.seats = new(seats)
	}
	if !q.config.FairPriorities {
		q.rota = rota{}
	}
	if q.seats == nil && q.config.Victim == VictimHead {
		return
	}
	for r := range q.back.all() {
		q.arrange(r)
	}
}
