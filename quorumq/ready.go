package quorumq

import (
	"iter"
	"math/bits"
)

// ready holds the messages that may be delivered, in order: a deque for each priority level (PR-1),
// and one for returned messages (DEL-1).
//
// Invariants, see check:
//   - ordinals ascend within a level and stay below nextOrd, which rises with each message that
//     becomes ready for the first time; numbers in the returned list stay below nextReturn;
//   - a bit of occupied is set while its level holds messages. If the bit in mixed is not set, the
//     bodies of the level ascend with the ordinals;
//   - inLevels counts the messages of the levels; bytes is the sum over levels and returned list;
//   - if the configuration asks for another order of the returned list than its own, each of its
//     messages has an entry in victims or positions. Entries stay after their messages until tidy.
type ready struct {
	levels   [levels]*deque[message, *message] // see level: most queues use one of them
	occupied uint32                            // bit per level with messages
	mixed    uint32                            // those of them whose bodies may not ascend
	inLevels int
	nextOrd  uint64 // ordinal of the next enqueued message

	returned   deque[returned, *returned]
	nextReturn uint64 // number of the next returned message

	bytes uint64 // of levels and returned list

	roundRobin weightedRoundRobin // if priorities are shares
	victims    heap[listEntry]    // of the returned list, if its head is not the victim
	positions  *originalPositions // nil if returned messages come first

	levelPool    pool[message, *message]
	returnedPool pool[returned, *returned]
	seen         message // what next has returned from the middle of the list
}

// level returns the deque of a priority level.
func (r *ready) level(l int) *deque[message, *message] {
	if r.levels[l] == nil {
		r.levels[l] = &deque[message, *message]{pool: &r.levelPool, tag: uint64(l)}
	}
	return r.levels[l]
}

// len returns the number of ready messages, returned ones included.
func (r *ready) len() int { return r.inLevels + r.returned.len() }

// occupiedLevels yields the levels that hold messages, ascending.
func (r *ready) occupiedLevels() iter.Seq[int] {
	return func(yield func(int) bool) {
		for rest := r.occupied; rest != 0; rest &= rest - 1 {
			if !yield(bits.TrailingZeros32(rest)) {
				return
			}
		}
	}
}

// bodies yields the body of each message, with the body of its annotations.
func (r *ready) bodies() iter.Seq2[BodyRef, BodyRef] {
	return func(yield func(body, annotations BodyRef) bool) {
		for l := range r.occupiedLevels() {
			for m := range r.levels[l].all() {
				if !yield(m.body(), BodyRef{}) {
					return
				}
			}
		}
		for x := range r.returned.all() {
			if !yield(x.body(), x.annotations()) {
				return
			}
		}
	}
}

// newMessage returns the record of a message of an Enqueue or Transfer. It has the next ordinal,
// but does not use it up.
func (r *ready) newMessage(body BodyRef, m *NewMessage, now Time) message {
	level := min(m.Priority, levels-1) // PR-1
	return message{
		ord:   r.nextOrd<<ordBits | uint64(level),
		index: body.Index,
		slot:  body.Slot,
		at:    now,
		ttl:   max(m.TTLMs, Unlimited),
		size:  m.Size,
	}
}

// push appends a message to its level. Its ordinal must be the newest.
func (r *ready) push(m *message) {
	l := m.level()
	r.level(l).push(m.key(), *m)
	r.occupied |= 1 << l
	r.inLevels++
	r.bytes += uint64(m.size)
}

// left accounts for a message that has left a level.
func (r *ready) left(level int, size uint32) {
	if r.levels[level].len() == 0 {
		r.occupied &^= 1 << level
		r.mixed &^= 1 << level
	}
	r.inLevels--
	r.bytes -= uint64(size)
}

// popFront removes the oldest message of a level.
func (r *ready) popFront(l int) held {
	h := held{message: *r.levels[l].front()}
	r.levels[l].pop()
	r.left(l, h.size)
	return h
}

// removeOrd removes a message of the levels by its ordinal. It returns false if the message has
// left.
func (r *ready) removeOrd(ord uint64) (message, bool) {
	l := int(ord & (levels - 1))
	m, ok := r.level(l).remove(ord >> ordBits)
	if ok {
		r.left(l, m.size)
	}
	return m, ok
}

// removeReturned removes a message from the returned list; it must be there.
func (r *ready) removeReturned(number uint64) held {
	var h held
	if front := r.returned.front(); front.number == number {
		h = front.held
		r.returned.pop()
	} else {
		x, _ := r.returned.remove(number)
		h = x.held
	}
	r.bytes -= uint64(h.size)
	return h
}

// removeAt removes the message at a place. It returns false if the message is no longer there.
func (r *ready) removeAt(p Place) (held, bool) {
	if p.Return == 0 {
		m, ok := r.removeOrd(p.Order)
		return held{message: m}, ok
	}
	if !r.returned.has(p.Return) {
		return held{}, false
	}
	for x := range r.returned.from(p.Return) {
		if x.ord != p.Order {
			return held{}, false
		}
		break
	}
	return r.removeReturned(p.Return), true
}

// hasOrd reports whether the message with an ordinal is in its level.
func (r *ready) hasOrd(ord uint64) bool {
	return r.level(int(ord & (levels - 1))).has(ord >> ordBits)
}
