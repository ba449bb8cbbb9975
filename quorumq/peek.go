package quorumq

import (
	"cmp"
	"slices"
)

// Part is one of the places where a queue keeps messages.
type Part uint8

// The parts.
const (
	// PartReady: in the order in which they would be delivered (DEL-1).
	PartReady Part = iota
	// PartUnsettled: with consumers, in the order of assignment.
	PartUnsettled
	// PartBacklog: on the way to other queues, in the order of their discards.
	PartBacklog
	// PartDelayed: held back until their time, in the order in which they were delayed.
	PartDelayed
)

// PeekFrom is where a page of Peek begins; the zero value is the front of the ready
// messages.
type PeekFrom struct {
	Part Part
	// Stage and Key are the end of the previous page.
	Stage uint8
	Key   uint64
	// Skip is how many messages to leave out first.
	Skip uint64
	// Number: only messages with this number or a higher one are shown.
	Number uint64
	// Below and Returns, for ready messages, are the numbers of the next message and the next
	// return when the first page was read. Later messages are not shown, so that the pages have an
	// end.
	Below, Returns uint64
}

// Peeked is a message in the queue.
type Peeked struct {
	Place       Place // of ready and unsettled messages
	Number      uint64
	Priority    uint8
	Body        BodyRef
	Annotations BodyRef
	Size        uint32
	At          Time  // when it was enqueued; of the backlog, when it was discarded
	Expires     Time  // of ready messages; 0: never
	TTLMs       int64 // its own TTL in milliseconds; Unlimited: none, or unknown, as of the backlog
	// DeliveryCount and AcquiredCount are as in Delivery.
	DeliveryCount, AcquiredCount uint32
	Consumer                     ConsumerKey  // of unsettled messages
	Reason                       Reason       // of dead letters in the backlog
	To                           *Destination // of moved messages in the backlog

	Due        Time   // of delayed messages: when it becomes ready
	assignment uint64 // of unsettled messages: number of the assignment
}

// After returns the start of the page after the one whose last message is p.
func (f PeekFrom) After(p *Peeked) PeekFrom {
	f.Skip = 0
	switch {
	case f.Part == PartUnsettled:
		f.Key = p.assignment + 1
	case f.Part == PartReady && p.Place.Return > 0:
		f.Stage, f.Key = 0, p.Place.Return+1
	case f.Part == PartReady:
		f.Stage, f.Key = levels-p.Priority, p.Number+1
	default:
		f.Key = p.Number + 1
	}
	return f
}

// Peek examines up to limit messages and appends those that from selects. more reports that there
// may be others, from next on. It changes nothing.
func (q *Queue) Peek(dst []Peeked, from PeekFrom, limit int) (out []Peeked, next PeekFrom, more bool) {
	switch from.Part {
	case PartReady:
		return q.store.ready.peek(dst, from, limit, q.config.MessageTTLMs)
	case PartUnsettled:
		return q.subs.order.peek(dst, from, limit)
	case PartBacklog:
		return q.backlog.peek(dst, from, limit)
	case PartDelayed:
		return q.store.delays.peek(dst, from, limit, q.config.MessageTTLMs)
	default:
		return dst, from, false
	}
}

// peek has one stage for the returned list and one for each level, from the highest on.
func (r *ready) peek(dst []Peeked, from PeekFrom, limit int, queueTTL int64) ([]Peeked, PeekFrom, bool) {
	if from.Below == 0 {
		from.Below, from.Returns = r.nextOrd, r.nextReturn
	}
	for ; int(from.Stage) <= levels; from.Stage, from.Key = from.Stage+1, 0 {
		if limit <= 0 {
			return dst, from, true
		}
		if from.Stage == 0 {
			from.Key, from.Skip = skipped(&r.returned, from.Key, from.Skip)
			for x := range r.returned.from(from.Key) {
				if x.number >= from.Returns {
					break
				}
				if limit--; limit < 0 {
					return dst, from, true
				}
				from.Key = x.number + 1
				if x.key() >= from.Number {
					dst = append(dst, x.peeked(x.number, queueTTL))
				}
			}
			continue
		}
		l := levels - int(from.Stage)
		if r.occupied&(1<<l) == 0 {
			continue
		}
		level := r.levels[l]
		from.Key, from.Skip = skipped(level, max(from.Key, from.Number), from.Skip)
		for m := range level.from(from.Key) {
			if m.key() >= from.Below {
				break
			}
			if limit--; limit < 0 {
				return dst, from, true
			}
			from.Key = m.key() + 1
			h := held{message: *m}
			dst = append(dst, h.peeked(0, queueTTL))
		}
	}
	return dst, from, false
}

// peeked returns what Peek shows of a message. number is its number in the returned list, 0 if it
// is not there.
func (h *held) peeked(number uint64, queueTTL int64) Peeked {
	return Peeked{
		Place: Place{Order: h.ord, Return: number}, Number: h.key(), Priority: uint8(h.level()), Body: h.body(),
		Annotations: h.annotations(), Size: h.size, At: h.at, Expires: h.expires(queueTTL), TTLMs: h.ttl,
		DeliveryCount: h.failures, AcquiredCount: h.acquired,
	}
}

// peek sorts what all consumers hold, so a page costs as much as they hold.
func (ss sessions) peek(dst []Peeked, from PeekFrom, limit int) ([]Peeked, PeekFrom, bool) {
	type one struct {
		number uint64
		c      *consumer
		a      *assigned
	}
	var all []one
	for c := range ss.consumers() {
		for a := range c.held.all() {
			if a.number >= from.Key && a.key() >= from.Number {
				all = append(all, one{a.number, c, a})
			}
		}
	}
	slices.SortFunc(all, func(a, b one) int { return cmp.Compare(a.number, b.number) })
	all = all[min(from.Skip, uint64(len(all))):]
	from.Skip = 0
	n := min(len(all), max(limit, 0))
	for _, x := range all[:n] {
		p := x.a.peeked(0, Unlimited)
		p.Expires, p.Consumer, p.assignment = 0, x.c.key, x.number
		dst = append(dst, p)
		from.Key = x.number + 1
	}
	return dst, from, n < len(all)
}

// peek shows the messages of the backlog by number.
func (b *backlog) peek(dst []Peeked, from PeekFrom, limit int) ([]Peeked, PeekFrom, bool) {
	from.Key, from.Skip = skipped(&b.set, max(from.Key, from.Number), from.Skip)
	for d := range b.set.from(from.Key) {
		if limit--; limit < 0 {
			return dst, from, true
		}
		from.Key = uint64(d.seq) + 1
		x := b.public(d)
		dst = append(dst, Peeked{
			Number: uint64(d.seq), Body: x.Body, Annotations: x.Annotations, Size: d.size, At: d.at, TTLMs: Unlimited,
			DeliveryCount: d.failures, AcquiredCount: d.acquired, Reason: x.Reason, To: x.To,
		})
	}
	return dst, from, false
}

// peek shows delayed messages in the order in which they were delayed.
func (d *delays) peek(dst []Peeked, from PeekFrom, limit int, queueTTL int64) ([]Peeked, PeekFrom, bool) {
	from.Key, from.Skip = skipped(&d.set, max(from.Key, from.Number), from.Skip)
	for x := range d.set.from(from.Key) {
		if limit--; limit < 0 {
			return dst, from, true
		}
		from.Key = x.number + 1
		p := x.peeked(0, queueTTL)
		p.Place, p.Number, p.Due, p.Expires = Place{}, x.number, x.due, 0
		if e, ok := x.expires(queueTTL); ok {
			p.Expires = e.at
		}
		dst = append(dst, p)
	}
	return dst, from, false
}
