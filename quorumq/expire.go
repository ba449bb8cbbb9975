package quorumq

// readyExpiry is the expiry of a message in the levels.
type readyExpiry struct {
	at  Time
	ord uint64
}

func (a readyExpiry) before(b readyExpiry) bool {
	return a.at < b.at || a.at == b.at && a.ord < b.ord
}

// backExpiry is the expiry of a message in the returned list.
type backExpiry struct {
	at     Time
	ord    uint64
	number uint64
}

func (a backExpiry) before(b backExpiry) bool {
	return a.at < b.at || a.at == b.at && a.ord < b.ord
}

// maxStale bounds the entries without message, beyond one for each message.
const maxStale = 1024

// tidyExpiries rebuilds a heap that has gathered too many entries without message.
func (q *Queue) tidyExpiries() {
	if len(q.readyDue.heap) > 2*q.readyN+maxStale {
		q.rebuildReadyExpiries()
	}
	if len(q.backDue.heap) > 2*q.back.len()+maxStale {
		q.rebuildBackExpiries()
	}
	d := &q.delays
	if most := 2*d.set.len() + maxStale; len(d.due.heap) > most || len(d.expiring.heap) > most {
		q.rebuildDelays()
	}
	if most := 2*q.back.len() + maxStale; len(q.victims.heap) > most || q.seats != nil && q.seats.entries > most {
		q.rearrange()
	}
}

func (q *Queue) rebuildReadyExpiries() {
	q.readyDue.heap = q.readyDue.heap[:0]
	for l := range q.occupiedLevels() {
		for m := range q.ready[l].all() {
			if at := q.expiry(m); at != 0 {
				q.readyDue.heap = append(q.readyDue.heap, readyExpiry{at: at, ord: m.ord})
			}
		}
	}
	q.readyDue.order()
}

func (q *Queue) rebuildBackExpiries() {
	q.backDue.heap = q.backDue.heap[:0]
	for r := range q.back.all() {
		if at := q.expiry(&r.message); at != 0 {
			q.backDue.heap = append(q.backDue.heap, backExpiry{at: at, ord: r.ord, number: r.number})
		}
	}
	q.backDue.order()
}

func (q *Queue) firstReadyExpiry() (readyExpiry, bool) {
	return q.readyDue.first(func(e readyExpiry) bool {
		return q.level(int(e.ord & (levels - 1))).has(e.ord >> ordBits)
	})
}

func (q *Queue) firstBackExpiry() (backExpiry, bool) {
	return q.backDue.first(func(e backExpiry) bool { return q.back.has(e.number) })
}

func (q *Queue) firstDelayedExpiry() (backExpiry, bool) {
	return q.delays.expiring.first(func(e backExpiry) bool { return q.delays.set.has(e.number) })
}

// nothingDue tells cheaply that no message expires or is to be ready up to t.
func (q *Queue) nothingDue(t Time) bool {
	return (len(q.readyDue.heap) == 0 || q.readyDue.heap[0].at > t) &&
		(len(q.backDue.heap) == 0 || q.backDue.heap[0].at > t) &&
		(len(q.delays.due.heap) == 0 || q.delays.due.heap[0].at > t) &&
		(len(q.delays.expiring.heap) == 0 || q.delays.expiring.heap[0].at > t)
}

// expireDue handles messages whose time has come, wherever they stand, in the order of their
// times, as many as the slice allows: those that expire, in that of (expiry, enqueue ordinal)
// (TTL-5, DL-11), and delayed ones that are to be ready (DR-3); who does both at once expires.
// It also ends sessions of nodes that stayed unreachable for too long (DC-1).
func (q *Queue) expireDue() {
	q.tidyExpiries()
	q.timeOutNodes()
	q.timeOutLeases()
	limit := q.slice()
	left := limit
	for left > 0 && !q.nothingDue(q.now) && q.handleFirst() {
		left--
	}
	if q.dissolving {
		left = q.dissolve(left)
	}
	q.handled += limit - left
	q.overfull = q.overfull || q.excess() // the rest of an earlier slice
}

// clearHead expires what is due until the message that would be delivered next is not: a Get
// is answered for good, and must not be told of an empty queue because a slice was used up.
// What one entry handles stays below ExpireChunk.
func (q *Queue) clearHead() {
	if q.config.Rules < RulesThird {
		return
	}
	for m := q.next(); m != nil && q.expired(m) && q.handled < ExpireChunk && q.handleFirst(); m = q.next() {
		q.handled++
	}
}

// handleFirst handles what is due first; false if nothing is.
func (q *Queue) handleFirst() bool {
	first, from := q.firstExpiry()
	p, waits := q.firstDelayed()
	if waits && p.at <= q.now && (from == nowhere || p.at < first.at) {
		q.promote()
		return true
	}
	if from == nowhere || first.at > q.now {
		return false
	}
	var h held
	switch from {
	case inLevels:
		l := int(first.ord & (levels - 1))
		h.message, _ = q.level(l).take(first.ord >> ordBits)
		q.readyDue.pop()
		q.left(l, h.size)
	case inReturned:
		h = q.pullReturned(first.number)
		q.backDue.pop()
	case inDelayed:
		d := q.takeDelayed(first.number)
		h = d.held
		q.delays.expiring.pop()
	case nowhere:
	}
	q.expireOne(&h)
	return true
}

// expiryFrom is where a message stands that expires.
type expiryFrom uint8

const (
	nowhere expiryFrom = iota
	inLevels
	inReturned
	inDelayed
)

// firstExpiry returns which message expires first of all.
func (q *Queue) firstExpiry() (first backExpiry, from expiryFrom) {
	if e, ok := q.firstReadyExpiry(); ok {
		first, from = backExpiry{at: e.at, ord: e.ord}, inLevels
	}
	if e, ok := q.firstBackExpiry(); ok && (from == nowhere || e.before(first)) {
		first, from = e, inReturned
	}
	if e, ok := q.firstDelayedExpiry(); ok && (from == nowhere || e.before(first)) {
		first, from = e, inDelayed
	}
	return first, from
}

func (q *Queue) expireOne(h *held) {
	q.stats.expired++
	q.discard(h, ReasonExpired)
}

// expired tells whether a message must not be delivered any more (TTL-2).
func (q *Queue) expired(m *message) bool {
	at := q.expiry(m)
	return at != 0 && at <= q.now
}

// due returns when something comes due first, 0 for never.
func (q *Queue) due() Time {
	if q.more || q.remains() {
		return q.now
	}
	e, _ := q.firstExpiry()
	first := e.at
	if d, ok := q.firstDelayed(); ok && (first == 0 || d.at < first) {
		first = d.at
	}
	for _, t := range [...]Time{q.nextNodeTimeout(), q.nextUnused(), q.leaseDue} {
		if t != 0 && (first == 0 || t < first) {
			first = t
		}
	}
	return first
}

// setTimer announces the first due time if it is earlier than what was announced, or if
// that has passed. A timer whose reason is gone just fires in vain: that is cheaper than
// to announce each change.
func (q *Queue) setTimer() {
	passed := q.timer == 0 || q.timer <= q.now
	if !passed && !q.more && q.nothingDue(q.timer-1) && q.suspects == 0 && q.config.ExpiresMs < 0 && !q.config.AutoDelete && !q.dissolving &&
		(q.leaseDue == 0 || q.leaseDue >= q.timer) {
		return
	}
	due := q.due()
	if passed {
		q.timer = due
		q.effects.Timer = due
		return
	}
	if due != 0 && due < q.timer {
		q.timer = due
		q.effects.Timer = due
	}
}
