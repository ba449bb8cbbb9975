package quorumq

// delays holds the messages that wait for a time (DR-1, DLY-1), in the order in which they were
// delayed.
//
// Invariants, see check:
//   - numbers ascend and stay below next; bytes is the sum over all messages;
//   - each message has an entry in due; entries stay after their messages until tidy;
//   - a message that was never ready has no ordinal except its level, was never assigned and did
//     not fail.
type delays struct {
	set   deque[delayed, *delayed]
	next  uint64 // number of the next delayed message
	bytes uint64
	due   heap[dueEntry]
	pool  pool[delayed, *delayed]
}

// dueEntry says when a delayed message is due.
type dueEntry struct {
	at     Time
	number uint64
}

func (a dueEntry) before(b dueEntry) bool {
	return a.at < b.at || a.at == b.at && a.number < b.number
}

// init makes the set empty.
func (d *delays) init() {
	d.next = 1
	d.set.pool = &d.pool
}

// push keeps a message until a time.
func (d *delays) push(h *held, until Time) delayed {
	x := delayed{held: *h, number: d.next, due: until}
	d.next++
	d.set.push(x.number, x)
	d.bytes += uint64(h.size)
	d.due.push(dueEntry{at: until, number: x.number})
	return x
}

// first returns the entry of the message that is due first.
func (d *delays) first() (dueEntry, bool) {
	return d.due.first(func(e dueEntry) bool { return d.set.has(e.number) })
}

// remove removes the message with a number; its entry stays.
func (d *delays) remove(number uint64) delayed {
	x, _ := d.set.remove(number)
	d.bytes -= uint64(x.size)
	return x
}

// popFirst removes the message that is due first. It returns false if none is delayed.
func (d *delays) popFirst() (delayed, bool) {
	e, ok := d.first()
	if !ok {
		return delayed{}, false
	}
	d.due.pop()
	return d.remove(e.number), true
}

// reset removes all messages; the numbers continue.
func (d *delays) reset() {
	d.set.reset()
	d.bytes = 0
	d.due.entries = nil
}

// rebuild builds the heap from the messages.
func (d *delays) rebuild() {
	d.due.entries = d.due.entries[:0]
	for x := range d.set.all() {
		d.due.entries = append(d.due.entries, dueEntry{at: x.due, number: x.number})
	}
	d.due.order()
}

// check returns an inconsistency, if there is one; nextOrd is the queue's next ordinal.
func (d *delays) check(now Time, nextOrd uint64) error {
	if err := checkBlocks(&d.set); err != nil {
		return err
	}
	last, bytes := uint64(0), uint64(0)
	for x := range d.set.all() {
		switch {
		case x.number <= last || x.number >= d.next:
			return inv("delayed number %d after %d, next is %d", x.number, last, d.next)
		case !x.fresh():
			if err := x.check(now, nextOrd); err != nil {
				return err
			}
		case x.at > now || x.at < 0 || x.ttl < Unlimited || x.acquired > 0 || x.failures > 0 || x.annotations() != (BodyRef{}) || x.ord >= levels:
			return inv("delayed number %d was never ready, at %d with TTL %d, acquired %d, failed %d, now %d", x.number, x.at, x.ttl, x.acquired, x.failures, now)
		}
		last = x.number
		bytes += uint64(x.size)
	}
	if bytes != d.bytes {
		return inv("delayed are %d bytes, counted %d", bytes, d.bytes)
	}
	return nil
}

// restore reads the messages from a snapshot. It calls each with the annotations of every message.
func (d *delays) restore(r *reader, each func(annotations BodyRef)) {
	restoreBlocks(r, &d.set, func(x *delayed) {
		each(x.annotations())
		d.bytes += uint64(x.size)
	})
	d.rebuild()
}
