package quorumq

// MaxDestinations bounds the destinations to which messages of one queue are on their way.
const MaxDestinations = 1000

// destination is one that messages of the backlog are on their way to.
type destination struct {
	Destination        // never changes
	id          uint16 // from 1
	count       int
}

// applyMove moves messages and answers how many, and the number of the last in the backlog.
func (q *Queue) applyMove(c *Move) {
	var to *destination
	if c.To.Kind != ToNowhere {
		if to = q.destinationOf(c.To); to == nil {
			q.reply.Code = CodeTooMany
			return
		}
	}
	for _, p := range c.Places {
		h, ok := q.store.ready.takeAt(p)
		if !ok {
			continue
		}
		q.reply.Count++
		if to == nil {
			q.stats.removed++
			q.release(h.body())
			q.dropAnnotations(h.annotations())
			continue
		}
		to.count++
		q.intoBacklog(&h, 0, to.id)
	}
	if to != nil && to.count == 0 {
		delete(q.destinations, to.id)
	}
}

// destinationOf returns the one that is known, or a new one with a free number; nil if there
// are too many.
func (q *Queue) destinationOf(to Destination) *destination {
	free := uint16(1)
	for ; q.destinations[free] != nil; free++ {
		if q.destinations[free].Destination == to {
			return q.destinations[free]
		}
	}
	for _, d := range q.destinations { // behind a gap
		if d.Destination == to {
			return d
		}
	}
	if len(q.destinations) >= MaxDestinations {
		return nil
	}
	d := &destination{Destination: to, id: free}
	q.destinations[free] = d
	return d
}

// arrived counts a message less that is on its way.
func (q *Queue) arrived(id uint16) {
	d := q.destinations[id]
	if d.count--; d.count == 0 {
		delete(q.destinations, id)
	}
}

// moving returns how many messages of the backlog are on their way to a destination.
func (q *Queue) moving() (n uint64) {
	for _, d := range q.destinations {
		n += uint64(d.count)
	}
	return n
}
