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

// expiries is a heap by (expiry, enqueue ordinal) (TTL-5). An entry whose message has
// left stays until it comes to the top, or until tidy finds too many of them.
type expiries[T ranked[T]] struct{ heap []T }

// ranked is what a heap of expiries holds.
type ranked[T any] interface{ before(other T) bool }

func (e *expiries[T]) push(v T) {
	e.heap = append(e.heap, v)
	h := e.heap
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !v.before(h[up]) {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = v
}

func (e *expiries[T]) pop() {
	n := len(e.heap) - 1
	last := e.heap[n]
	e.heap = e.heap[:n]
	if n > 0 {
		e.sink(0, last)
	}
}

// sink puts v at i or below.
func (e *expiries[T]) sink(i int, v T) {
	h := e.heap
	for {
		down := 2*i + 1
		if down >= len(h) {
			break
		}
		if down+1 < len(h) && h[down+1].before(h[down]) {
			down++
		}
		if !h[down].before(v) {
			break
		}
		h[i] = h[down]
		i = down
	}
	h[i] = v
}

// order makes a heap of entries that were appended without order.
func (e *expiries[T]) order() {
	for i := len(e.heap)/2 - 1; i >= 0; i-- {
		e.sink(i, e.heap[i])
	}
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
}

func (q *Queue) rebuildReadyExpiries() {
	q.readyDue.heap = q.readyDue.heap[:0]
	for l := range q.ready {
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

// firstReadyExpiry returns the first entry that still has its message; it drops those
// in front that have none.
func (q *Queue) firstReadyExpiry() (readyExpiry, bool) {
	for len(q.readyDue.heap) > 0 {
		e := q.readyDue.heap[0]
		if q.ready[e.ord&(levels-1)].has(e.ord >> ordBits) {
			return e, true
		}
		q.readyDue.pop()
	}
	return readyExpiry{}, false
}

func (q *Queue) firstBackExpiry() (backExpiry, bool) {
	for len(q.backDue.heap) > 0 {
		e := q.backDue.heap[0]
		if q.back.has(e.number) {
			return e, true
		}
		q.backDue.pop()
	}
	return backExpiry{}, false
}

// nothingDue tells cheaply that no message expires up to t.
func (q *Queue) nothingDue(t Time) bool {
	return (len(q.readyDue.heap) == 0 || q.readyDue.heap[0].at > t) &&
		(len(q.backDue.heap) == 0 || q.backDue.heap[0].at > t)
}

// expireDue expires up to limit messages whose time has come, in the order of (expiry,
// enqueue ordinal) wherever they stand (TTL-5, DL-11), and ends sessions of nodes that
// stayed unreachable for too long (DC-1).
func (q *Queue) expireDue(limit int) {
	q.tidyExpiries()
	q.timeOutNodes()
	q.timeOutLeases()
	for ; limit > 0 && !q.nothingDue(q.now); limit-- {
		e, readyDue := q.firstReadyExpiry()
		f, backDue := q.firstBackExpiry()
		readyDue = readyDue && e.at <= q.now
		backDue = backDue && f.at <= q.now
		switch {
		case readyDue && (!backDue || e.at < f.at || e.at == f.at && e.ord < f.ord):
			l := int(e.ord & (levels - 1))
			m, _ := q.ready[l].take(e.ord >> ordBits)
			q.readyDue.pop()
			q.left(l, m.size)
			q.expireOne(&held{message: m})
		case backDue:
			r, _ := q.back.take(f.number)
			q.backDue.pop()
			q.readySize -= uint64(r.size)
			q.expireOne(&r.held)
		default:
			return
		}
	}
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
	if q.more {
		return q.now
	}
	first := Time(0)
	if e, ok := q.firstReadyExpiry(); ok {
		first = e.at
	}
	if e, ok := q.firstBackExpiry(); ok && (first == 0 || e.at < first) {
		first = e.at
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
	if !passed && !q.more && q.nothingDue(q.timer-1) && q.suspects == 0 && q.config.ExpiresMs < 0 && !q.config.AutoDelete &&
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
