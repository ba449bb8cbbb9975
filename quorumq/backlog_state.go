package quorumq

import (
	"maps"
	"slices"
)

// putDestinations writes the destinations of moved messages, but not the messages.
func (b *backlog) putDestinations(dst []byte) []byte {
	dst = putU(dst, uint64(len(b.destinations)))
	for _, n := range slices.Sorted(maps.Keys(b.destinations)) {
		dst = putDestination(putU(dst, uint64(n)), b.destinations[n].Destination)
	}
	return dst
}

// restoreDestinations reads the destinations from a snapshot.
func (b *backlog) restoreDestinations(r *reader) {
	n := r.count(4)
	r.check(n <= MaxDestinations, errRange)
	last := uint64(0)
	known := make(map[Destination]bool, n)
	for range n {
		id := r.upTo(MaxDestinations)
		d := &destination{id: uint16(id), Destination: r.destination()}
		r.check(id > last && !known[d.Destination], errUnordered)
		r.check(d.Kind != ToNowhere, errRange)
		if r.err != nil {
			return
		}
		b.destinations[d.id] = d
		known[d.Destination], last = true, id
	}
}

// restore reads the messages from a snapshot. It calls each with the annotations of every message.
func (b *backlog) restore(r *reader, each func(annotations BodyRef)) {
	restoreBlocks(r, &b.set, func(d *discarded) {
		each(d.annotations())
		b.bytes += uint64(d.size)
		if to := b.destinations[d.to]; to != nil {
			to.count++
		}
	})
}

// check returns an inconsistency, if there is one.
func (b *backlog) check() error {
	if err := checkBlocks(&b.set); err != nil {
		return err
	}
	last, bytes := Seq(0), uint64(0)
	moving := make(map[uint16]int)
	for d := range b.set.all() {
		if d.seq <= last || d.seq >= b.next {
			return inv("backlog number %d after %d, next is %d", d.seq, last, b.next)
		}
		if d.to == 0 && (d.reason < ReasonRejected || d.reason > LastReason) || d.to != 0 && d.reason != 0 {
			return inv("backlog number %d has reason %d and destination %d", d.seq, d.reason, d.to)
		}
		if d.to != 0 {
			moving[d.to]++
		}
		last = d.seq
		bytes += uint64(d.size)
	}
	if bytes != b.bytes {
		return inv("backlog has %d bytes, counted %d", bytes, b.bytes)
	}
	for n, d := range b.destinations {
		if d.id != n || d.count == 0 || d.count != moving[n] {
			return inv("%d messages are on their way to destination %d, counted %d", moving[n], n, d.count)
		}
	}
	if len(moving) != len(b.destinations) {
		return inv("messages are on their way to %d destinations, known are %d", len(moving), len(b.destinations))
	}
	return nil
}
