package quorumq

// backlog holds messages that are being sent to other queues: dead letters of at-least-once
// (DL-21), and messages that are moved or published (G-13, G-22). Their numbers identify them to
// the target queues (DL-25), so that none is stored there twice. They may be settled in any order.
//
// Invariants, see check:
//   - numbers ascend and stay below next, which never falls; bytes is the sum over all messages;
//   - a message has either a reason or a destination;
//   - destinations are those that a message is being sent to, at most MaxDestinations, each with
//     its count; the number of a destination is reused once no message is being sent to it.
type backlog struct {
	set          deque[discarded, *discarded]
	next         Seq // number of the next discarded message
	bytes        uint64
	destinations map[uint16]*destination // by number
	pool         pool[discarded, *discarded]
}

// destination is a destination of messages in the backlog.
type destination struct {
	Destination        // never changes
	id          uint16 // from 1
	count       int
}

// init makes the backlog empty.
func (b *backlog) init() {
	b.next = 1
	b.set.pool = &b.pool
	b.destinations = make(map[uint16]*destination)
}

// newDiscarded returns the record of a message that leaves the queue: as a dead letter with a
// reason, or to a destination.
func newDiscarded(h *held, reason Reason, to uint16, now Time) discarded {
	return discarded{
		index: h.index, slot: h.slot, size: h.size,
		annIndex: h.annIndex, annSlot: h.annSlot,
		failures: h.failures, acquired: h.acquired,
		reason: reason, to: to, at: now,
	}
}

// push numbers a message and appends it. The message keeps its body, and counts, until the
// forwarder has delivered it (DL-21).
func (b *backlog) push(d *discarded, e *Effects) {
	d.seq = b.next
	b.next++
	b.set.push(uint64(d.seq), *d)
	b.bytes += uint64(d.size)
	e.Backlog = true
}

// send appends a message that goes to a destination; that is no death (G-13).
func (b *backlog) send(h *held, to *destination, now Time, e *Effects) {
	to.count++
	d := newDiscarded(h, 0, to.id, now)
	b.push(&d, e)
}

// remove removes the message with a number, which must be there.
func (b *backlog) remove(seq uint64) discarded {
	d, _ := b.set.remove(seq)
	b.bytes -= uint64(d.size)
	if d.to != 0 {
		to := b.destinations[d.to]
		to.count--
		b.leave(to)
	}
	return d
}

// settledUpTo returns the watermark up to which every number is settled (DL-25).
func (b *backlog) settledUpTo() Seq {
	if d := b.set.front(); d != nil {
		return d.seq - 1
	}
	return b.next - 1
}

// public returns a message as the forwarder sees it.
func (b *backlog) public(d *discarded) Discarded {
	x := Discarded{
		Seq:           d.seq,
		Body:          d.body(),
		Annotations:   d.annotations(),
		Reason:        d.reason,
		DeliveryCount: d.failures,
		AcquiredCount: d.acquired,
		At:            d.at,
	}
	if d.to != 0 {
		x.To = &b.destinations[d.to].Destination
	}
	return x
}

// page appends up to limit messages with numbers above after.
func (b *backlog) page(dst []Discarded, after Seq, limit int) []Discarded {
	if after >= b.next {
		return dst
	}
	for d := range b.set.from(uint64(after) + 1) {
		if limit <= 0 {
			break
		}
		dst = append(dst, b.public(d))
		limit--
	}
	return dst
}

// destinationOf returns the known destination, or a new one with a free number; nil if there are
// too many. A caller that then sends nothing there must call leave.
func (b *backlog) destinationOf(to Destination) *destination {
	free := uint16(1)
	for ; b.destinations[free] != nil; free++ {
		if b.destinations[free].Destination == to {
			return b.destinations[free]
		}
	}
	for _, d := range b.destinations { // it may be known under a number after a gap
		if d.Destination == to {
			return d
		}
	}
	if len(b.destinations) >= MaxDestinations {
		return nil
	}
	d := &destination{Destination: to, id: free}
	b.destinations[free] = d
	return d
}

// destinationsOf returns where each output of a transaction goes. If that are too many
// destinations, it returns nil, and no new one stays known.
func (b *backlog) destinationsOf(outputs []Output) []*destination {
	to := make([]*destination, len(outputs))
	for i := range outputs {
		if to[i] = b.destinationOf(Destination{Kind: ToExchange, Name: outputs[i].Exchange}); to[i] == nil {
			for _, d := range to[:i] {
				b.leave(d)
			}
			return nil
		}
	}
	return to
}

// leave forgets a destination that no message is being sent to.
func (b *backlog) leave(to *destination) {
	if to.count == 0 {
		delete(b.destinations, to.id)
	}
}

// moving returns how many messages are being sent to a destination.
func (b *backlog) moving() (n uint64) {
	for _, d := range b.destinations {
		n += uint64(d.count)
	}
	return n
}

const (
	// lostNumbers is how many of its newest numbers a queue may have lost without a clock's help.
	lostNumbers = 1 << 32
	// numbersPerMs is how many numbers a queue uses in a millisecond at most, on average over its life.
	numbersPerMs = 1 << 10
	// lastTimedMs bounds the time that is made a number: numbers below 2^53 are exact in JSON.
	lastTimedMs = 1 << 43
)

// renumber raises the next number above all that were ever used. If nothing of them is known any more, the time keeps
// them apart; if the clock is wrong as well, more than enough of them are passed over.
func (b *backlog) renumber(now Time) {
	timed := Seq(min(now, lastTimedMs)) * numbersPerMs
	b.next = max(b.next, min(b.next, 1<<62)+lostNumbers, timed)
}

// reset removes all messages; the numbers continue.
func (b *backlog) reset() {
	b.set.reset()
	b.bytes = 0
	clear(b.destinations)
}
