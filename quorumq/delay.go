package quorumq

// delays holds the delayed messages, in the order in which they were delayed, and when
// they are due. Those that expire before have an entry for that as well.
type delays struct {
	set  deque[delayed, *delayed]
	next uint64 // number of the next delayed message
	size uint64 // bytes

	due      expiries[delayEntry]
	expiring expiries[backExpiry]
}

// delayEntry is when a delayed message is due.
type delayEntry struct {
	at     Time
	number uint64
}

func (a delayEntry) before(b delayEntry) bool {
	return a.at < b.at || a.at == b.at && a.number < b.number
}

// delay puts a message aside until a time.
func (q *Queue) delay(h held, until Time) {
	d := delayed{held: h, number: q.delays.next, due: until}
	q.delays.next++
	q.delays.set.push(d.number, d)
	q.delays.size += uint64(h.size)
	q.delays.due.push(delayEntry{at: until, number: d.number})
	if e, ok := q.delayedExpiry(&d); ok {
		q.delays.expiring.push(e)
	}
}

// delayedExpiry returns when a message expires while it is delayed. The TTL of one that
// was never ready has not begun (DLY-1).
func (q *Queue) delayedExpiry(d *delayed) (backExpiry, bool) {
	if d.fresh() {
		return backExpiry{}, false
	}
	at := q.expiry(&d.message)
	return backExpiry{at: at, ord: d.ord, number: d.number}, at != 0 && at <= d.due
}

// firstDelayed returns the entry of the message that is due first.
func (q *Queue) firstDelayed() (delayEntry, bool) {
	return q.delays.due.first(func(e delayEntry) bool { return q.delays.set.has(e.number) })
}

// takeDelayed takes a message out of the delayed ones.
func (q *Queue) takeDelayed(number uint64) delayed {
	d, _ := q.delays.set.take(number)
	q.delays.size -= uint64(d.size)
	return d
}

// promote makes the message ready that is due first: in the returned list (DR-3), or as a
// new one of its level (DLY-1).
func (q *Queue) promote() {
	d := q.takeDelayed(q.delays.due.heap[0].number)
	q.delays.due.pop()
	if !d.fresh() {
		q.pushBack(d.held)
		return
	}
	m := d.message
	m.ord |= q.ordNext << ordBits
	m.at = q.now
	q.ordNext++
	if q.ready[m.level()].len() > 0 { // its body is older than theirs
		q.mixed |= 1 << m.level()
	}
	q.pushReady(m)
}

// applyRetryDelayed makes delayed messages ready, those that are due first, before they
// are (DR-6).
func (q *Queue) applyRetryDelayed(c *RetryDelayed) {
	limit := uint64(ExpireSlice) // of its own: who is told of none would not ask again
	if q.config.Rules < RulesThird {
		limit = ExpireChunk
	}
	if c.Limit > 0 {
		limit = min(limit, c.Limit)
	}
	for q.reply.Count < limit {
		if _, ok := q.firstDelayed(); !ok {
			break
		}
		q.promote()
		q.reply.Count++
	}
	q.reply.Left = uint64(q.delays.set.len())
}

// purgeDelayed removes all of them.
func (q *Queue) purgeDelayed() {
	for d := range q.delays.set.all() {
		q.release(d.body())
		q.dropAnnotations(d.annotations())
	}
	q.delays.set.reset()
	q.delays.size = 0
	q.delays.due.heap, q.delays.expiring.heap = nil, nil
}

// rebuildDelays makes the heaps anew from the messages.
func (q *Queue) rebuildDelays() {
	q.delays.due.heap = q.delays.due.heap[:0]
	for d := range q.delays.set.all() {
		q.delays.due.heap = append(q.delays.due.heap, delayEntry{at: d.due, number: d.number})
	}
	q.delays.due.order()
	q.rebuildDelayedExpiries()
}

func (q *Queue) rebuildDelayedExpiries() {
	q.delays.expiring.heap = q.delays.expiring.heap[:0]
	for d := range q.delays.set.all() {
		if e, ok := q.delayedExpiry(d); ok {
			q.delays.expiring.heap = append(q.delays.expiring.heap, e)
		}
	}
	q.delays.expiring.order()
}

func (q *Queue) checkDelays() error {
	if err := checkBlocks(&q.delays.set); err != nil {
		return err
	}
	last, size := uint64(0), uint64(0)
	for d := range q.delays.set.all() {
		switch {
		case d.number <= last || d.number >= q.delays.next:
			return inv("delayed number %d after %d, next is %d", d.number, last, q.delays.next)
		case !d.fresh():
			if err := q.checkHeld(&d.held); err != nil {
				return err
			}
		case d.at > q.now || d.at < 0 || d.ttl < Unlimited || d.acquired > 0 || d.failures > 0 || d.annotations() != (BodyRef{}) || d.ord >= levels:
			return inv("delayed number %d was never ready, at %d with TTL %d, acquired %d, failed %d, now %d", d.number, d.at, d.ttl, d.acquired, d.failures, q.now)
		}
		last = d.number
		size += uint64(d.size)
	}
	if size != q.delays.size {
		return inv("delayed are %d bytes, counted %d", size, q.delays.size)
	}
	return nil
}
