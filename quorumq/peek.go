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
	// PartBacklog: on their way to other queues, in the order of their discards.
	PartBacklog
	// PartDelayed: held back until their time, in the order in which they were delayed.
	PartDelayed
)

// PeekFrom is where a page of Peek begins; the zero value is the front of the ready
// messages.
type PeekFrom struct {
	Part Part
	// Stage and Key are what an earlier page ended with.
	Stage uint8
	Key   uint64
	// Skip is how many messages are left out first.
	Skip uint64
	// Number: only messages with this number or a higher one are shown.
	Number uint64
	// Below and Returns, of ready messages, are the numbers that the next message and the next
	// return had when the first page was read: what came later is not shown, so that the
	// pages have an end.
	Below, Returns uint64
}

// Peeked is a message as it stands in the queue.
type Peeked struct {
	Place       Place // of ready and unsettled ones
	Number      uint64
	Priority    uint8
	Body        BodyRef
	Annotations BodyRef
	Size        uint32
	At          Time // when it was enqueued; of the backlog, when it was discarded
	Expires     Time // of ready ones; 0: never
	// DeliveryCount and AcquiredCount are as in Delivery.
	DeliveryCount, AcquiredCount uint32
	Consumer                     ConsumerKey  // of unsettled ones
	Reason                       Reason       // of dead letters in the backlog
	To                           *Destination // of moved messages in the backlog

	Due  Time   // of delayed ones: when it will be ready
	turn uint64 // of unsettled ones
}

// After returns where a page begins whose last message is p.
func (f PeekFrom) After(p *Peeked) PeekFrom {
	f.Skip = 0
	switch {
	case f.Part == PartUnsettled:
		f.Key = p.turn + 1
	case f.Part == PartReady && p.Place.Return > 0:
		f.Stage, f.Key = 0, p.Place.Return+1
	case f.Part == PartReady:
		f.Stage, f.Key = levels-p.Priority, p.Number+1
	default:
		f.Key = p.Number + 1
	}
	return f
}

// Peek looks at up to limit messages and appends those that from asks for. more tells that
// there may be others, at next. It changes nothing.
func (q *Queue) Peek(dst []Peeked, from PeekFrom, limit int) (out []Peeked, next PeekFrom, more bool) {
	switch from.Part {
	case PartReady:
		return q.peekReady(dst, from, limit)
	case PartUnsettled:
		return q.peekUnsettled(dst, from, limit)
	case PartBacklog:
		return q.peekBacklog(dst, from, limit)
	case PartDelayed:
		return q.peekDelayed(dst, from, limit)
	default:
		return dst, from, false
	}
}

// peekReady has a stage for the returned list and one for each level, from the highest.
func (q *Queue) peekReady(dst []Peeked, from PeekFrom, limit int) ([]Peeked, PeekFrom, bool) {
	if from.Below == 0 {
		from.Below, from.Returns = q.store.ready.nextOrd, q.store.ready.nextReturn
	}
	for ; int(from.Stage) <= levels; from.Stage, from.Key = from.Stage+1, 0 {
		if limit <= 0 {
			return dst, from, true
		}
		if from.Stage == 0 {
			from.Key, from.Skip = skipped(&q.store.ready.returned, from.Key, from.Skip)
			for r := range q.store.ready.returned.from(from.Key) {
				if r.number >= from.Returns {
					break
				}
				if limit--; limit < 0 {
					return dst, from, true
				}
				from.Key = r.number + 1
				if r.key() >= from.Number {
					dst = append(dst, q.peeked(&r.held, r.number))
				}
			}
			continue
		}
		l := levels - int(from.Stage)
		if q.store.ready.occupied&(1<<l) == 0 {
			continue
		}
		level := q.store.ready.levels[l]
		from.Key, from.Skip = skipped(level, max(from.Key, from.Number), from.Skip)
		for m := range level.from(from.Key) {
			if m.key() >= from.Below {
				break
			}
			if limit--; limit < 0 {
				return dst, from, true
			}
			from.Key = m.key() + 1
			dst = append(dst, q.peeked(&held{message: *m}, 0))
		}
	}
	return dst, from, false
}

func (q *Queue) peeked(h *held, number uint64) Peeked {
	return Peeked{
		Place: Place{Order: h.ord, Return: number}, Number: h.key(), Priority: uint8(h.level()), Body: h.body(),
		Annotations: h.annotations(), Size: h.size, At: h.at, Expires: h.expires(q.config.MessageTTLMs),
		DeliveryCount: h.failures, AcquiredCount: h.acquired,
	}
}

// peekUnsettled puts what all consumers hold in order: a page costs as much as they hold.
func (q *Queue) peekUnsettled(dst []Peeked, from PeekFrom, limit int) ([]Peeked, PeekFrom, bool) {
	type one struct {
		turn uint64
		c    *consumer
		a    *assigned
	}
	var all []one
	for c := range q.subs.order.consumers() {
		for a := range c.held.all() {
			if a.turn >= from.Key && a.key() >= from.Number {
				all = append(all, one{a.turn, c, a})
			}
		}
	}
	slices.SortFunc(all, func(a, b one) int { return cmp.Compare(a.turn, b.turn) })
	all = all[min(from.Skip, uint64(len(all))):]
	from.Skip = 0
	n := min(len(all), max(limit, 0))
	for _, x := range all[:n] {
		p := q.peeked(&x.a.held, 0)
		p.Expires, p.Consumer, p.turn = 0, x.c.key, x.turn
		dst = append(dst, p)
		from.Key = x.turn + 1
	}
	return dst, from, n < len(all)
}

func (q *Queue) peekBacklog(dst []Peeked, from PeekFrom, limit int) ([]Peeked, PeekFrom, bool) {
	from.Key, from.Skip = skipped(&q.backlog.set, max(from.Key, from.Number), from.Skip)
	for d := range q.backlog.set.from(from.Key) {
		if limit--; limit < 0 {
			return dst, from, true
		}
		from.Key = uint64(d.seq) + 1
		x := q.backlog.public(d)
		dst = append(dst, Peeked{
			Number: uint64(d.seq), Body: x.Body, Annotations: x.Annotations, Size: d.size, At: d.at,
			DeliveryCount: d.failures, AcquiredCount: d.acquired, Reason: x.Reason, To: x.To,
		})
	}
	return dst, from, false
}

// peekDelayed numbers messages by the order in which they were delayed.
func (q *Queue) peekDelayed(dst []Peeked, from PeekFrom, limit int) ([]Peeked, PeekFrom, bool) {
	from.Key, from.Skip = skipped(&q.store.delays.set, max(from.Key, from.Number), from.Skip)
	for d := range q.store.delays.set.from(from.Key) {
		if limit--; limit < 0 {
			return dst, from, true
		}
		from.Key = d.number + 1
		p := q.peeked(&d.held, 0)
		p.Place, p.Number, p.Due, p.Expires = Place{}, d.number, d.due, 0
		if e, ok := d.expires(q.config.MessageTTLMs); ok {
			p.Expires = e.at
		}
		dst = append(dst, p)
	}
	return dst, from, false
}
