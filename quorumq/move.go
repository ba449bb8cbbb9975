package quorumq

import "math"

// DestinationKind says where a Move sends messages.
type DestinationKind uint8

// The kinds are stored; numbers are never reused.
const (
	// ToNowhere takes messages off the queue for good: nothing dead-letters them.
	ToNowhere DestinationKind = iota
	// ToQueue: the queue Name of the same vhost.
	ToQueue
	// ToExchange: the exchange Name, with Key if HasKey, else with the message's own keys.
	ToExchange
	// ToOrigin: the queue that the message died in first.
	ToOrigin
	// ToOriginExchange: the exchange that the message came through before it died first, with
	// the keys that it had then.
	ToOriginExchange
)

// String returns a word for logs.
func (k DestinationKind) String() string {
	words := [...]string{"nowhere", "queue", "exchange", "origin", "origin exchange"}
	if int(k) < len(words) {
		return words[k]
	}
	return "unknown"
}

// Destination is where a Move sends messages.
type Destination struct {
	Kind   DestinationKind
	Name   string // of the queue or exchange
	Key    string // with HasKey
	HasKey bool
}

// MaxDestinationBytes bounds name and key of a destination.
const MaxDestinationBytes = 255

// MaxDestinations bounds the destinations to which messages of one queue are on their way.
const MaxDestinations = 1000

// Place is where a ready message stands. It names the message as long as it stays there;
// no other one ever has the same.
type Place struct {
	Order  uint64 // number of the message, above its priority level's 5 bits
	Return uint64 // number of its latest return; 0: none
}

// Number returns the message's number: they rise in the order in which the queue took its
// messages.
func (p Place) Number() uint64 { return p.Order >> ordBits }

// Move takes ready messages off the queue (G-13). Unless To is nowhere they wait in the
// backlog, in this order, until the forwarder has brought each to its destination, as it
// does with dead letters (DL-25); that is no death. Places whose message has left are
// skipped, so that a repeat does nothing.
type Move struct {
	To     Destination
	Places []Place
}

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
		h, ok := q.takeAt(p)
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

// takeAt removes the ready message that stands at a place.
func (q *Queue) takeAt(p Place) (held, bool) {
	level := int(p.Order & (levels - 1))
	if p.Return == 0 {
		m, ok := q.level(level).take(p.Number())
		if ok {
			q.left(level, m.size)
		}
		return held{message: m}, ok
	}
	if !q.back.has(p.Return) {
		return held{}, false
	}
	for r := range q.back.from(p.Return) {
		if r.ord != p.Order {
			return held{}, false
		}
		break
	}
	r, _ := q.back.take(p.Return)
	q.readySize -= uint64(r.size)
	return r.held, true
}

// A backlog record's column of reasons holds the destination's number above moveBase.
const moveBase = 1 << 8

func (d *discarded) cause() uint64 {
	if d.to != 0 {
		return moveBase + uint64(d.to)
	}
	return uint64(d.reason)
}

func (d *discarded) setCause(v uint64) {
	if v > moveBase {
		d.to = uint16(min(v-moveBase, math.MaxUint16))
		return
	}
	d.reason = Reason(min(v, uint64(LastReason)+1))
}
