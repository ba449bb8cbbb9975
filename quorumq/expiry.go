package quorumq

// expiry finds the ready and delayed messages whose TTL is over, wherever they are (TTL-5), in
// heaps by (expiry, enqueue ordinal). Only messages that expire at all are in the heaps.
//
// The expiry of a message is not stored, but computed from its age and the configuration in force.
// So the heaps are rebuilt when message-ttl changes (PO-9).
//
// Invariants:
//   - each message that expires has an entry; a delayed one only if it expires no later than it is
//     due. Entries stay after their messages until they reach the top, or until tidy. There are
//     never more than two entries for each message, plus maxStale.
type expiry struct {
	levels   heap[ordEntry]
	returned heap[listEntry]
	delayed  heap[listEntry]
}

// ordEntry is the expiry of a message in the levels.
type ordEntry struct {
	at  Time
	ord uint64
}

func (a ordEntry) before(b ordEntry) bool {
	return a.at < b.at || a.at == b.at && a.ord < b.ord
}

// expires returns when a message expires under the queue's message-ttl, 0 for never (TTL-1).
func (m *message) expires(queueTTL int64) Time {
	ttl := m.ttl
	if queueTTL >= 0 && (ttl < 0 || queueTTL < ttl) {
		ttl = queueTTL
	}
	if ttl < 0 {
		return 0
	}
	return after(m.at, max(ttl, 1))
}

// expired reports whether a message must no longer be delivered (TTL-2).
func (m *message) expired(queueTTL int64, now Time) bool {
	at := m.expires(queueTTL)
	return at != 0 && at <= now
}

// expires returns when a message expires while it is delayed. If it was never ready, its TTL has
// not begun (DLY-1).
func (d *delayed) expires(queueTTL int64) (listEntry, bool) {
	if d.fresh() {
		return listEntry{}, false
	}
	at := d.message.expires(queueTTL)
	return listEntry{at: at, ord: d.ord, number: d.number}, at != 0 && at <= d.due
}

// nothingDue reports, at little cost, whether nothing expires up to t.
func (e *expiry) nothingDue(t Time) bool {
	return (len(e.levels.entries) == 0 || e.levels.entries[0].at > t) &&
		(len(e.returned.entries) == 0 || e.returned.entries[0].at > t) &&
		(len(e.delayed.entries) == 0 || e.delayed.entries[0].at > t)
}

// foundIn is where a message that expires is.
type foundIn uint8

const (
	nowhere foundIn = iota
	inLevels
	inReturned
	inDelayed
)

// first returns the message that expires first of all.
func (e *expiry) first(r *ready, d *delays) (first listEntry, in foundIn) {
	if x, ok := e.levels.first(func(x ordEntry) bool { return r.hasOrd(x.ord) }); ok {
		first, in = listEntry{at: x.at, ord: x.ord}, inLevels
	}
	if x, ok := e.returned.first(func(x listEntry) bool { return r.returned.has(x.number) }); ok && (in == nowhere || x.before(first)) {
		first, in = x, inReturned
	}
	if x, ok := e.delayed.first(func(x listEntry) bool { return d.set.has(x.number) }); ok && (in == nowhere || x.before(first)) {
		first, in = x, inDelayed
	}
	return first, in
}

// rebuildLevels rebuilds the heap of the levels.
func (e *expiry) rebuildLevels(r *ready, queueTTL int64) {
	e.levels.entries = e.levels.entries[:0]
	for l := range r.occupiedLevels() {
		for m := range r.levels[l].all() {
			if at := m.expires(queueTTL); at != 0 {
				e.levels.entries = append(e.levels.entries, ordEntry{at: at, ord: m.ord})
			}
		}
	}
	e.levels.order()
}

// rebuildReturned rebuilds the heap of the returned list.
func (e *expiry) rebuildReturned(r *ready, queueTTL int64) {
	e.returned.entries = e.returned.entries[:0]
	for x := range r.returned.all() {
		if at := x.expires(queueTTL); at != 0 {
			e.returned.entries = append(e.returned.entries, listEntry{at: at, ord: x.ord, number: x.number})
		}
	}
	e.returned.order()
}

// rebuildDelayed rebuilds the heap of the delayed messages.
func (e *expiry) rebuildDelayed(d *delays, queueTTL int64) {
	e.delayed.entries = e.delayed.entries[:0]
	for x := range d.set.all() {
		if at, ok := x.expires(queueTTL); ok {
			e.delayed.entries = append(e.delayed.entries, at)
		}
	}
	e.delayed.order()
}
