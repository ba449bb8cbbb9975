package broker

import (
	"math/bits"
)

// unacked remembers which deliveries of a consumer the client has not decided about: one bit for
// each delivery from the oldest unacked one on.
type unacked struct {
	base    uint64   // ids up to base are decided; base+1 has bit 0
	last    uint64   // newest delivered id
	decided []uint64 // bit i: whether id base+1+i is decided
}

// wordBits is the number of bits in one element of decided.
const wordBits = 64

// deliveredUpTo adds the ids up to n.
func (u *unacked) deliveredUpTo(n uint64) { u.last = max(u.last, n) }

// decide marks an id as decided. It returns false if the id was not delivered, or is decided
// already.
func (u *unacked) decide(n uint64) bool {
	if n <= u.base || n > u.last {
		return false
	}
	i := n - u.base - 1
	for uint64(len(u.decided)) <= i/wordBits {
		u.decided = append(u.decided, 0)
	}
	w, bit := &u.decided[i/wordBits], uint64(1)<<(i%wordBits)
	if *w&bit != 0 {
		return false
	}
	*w |= bit
	u.trim()
	return true
}

// first returns the first id that may not be decided.
func (u *unacked) first() uint64 { return u.base + 1 }

// decideUpTo marks all ids up to n as decided.
func (u *unacked) decideUpTo(n uint64) {
	n = min(n, u.last)
	if n <= u.base {
		return
	}
	words := (n - u.base) / wordBits
	drop := min(words, uint64(len(u.decided)))
	u.decided = append(u.decided[:0], u.decided[drop:]...)
	u.base += words * wordBits
	for id := u.base + 1; id <= n; id++ {
		u.decide(id)
	}
}

// appendOpen appends the delivered ids of a range that are not decided to dst.
func (u *unacked) appendOpen(dst []uint64, first, last uint64) []uint64 {
	for id := max(first, u.first()); id <= min(last, u.last); id++ {
		i := id - u.base - 1
		if w := i / wordBits; w >= uint64(len(u.decided)) || u.decided[w]&(1<<(i%wordBits)) == 0 {
			dst = append(dst, id)
		}
	}
	return dst
}

// trim removes the first words whose ids are all decided.
func (u *unacked) trim() {
	drop := 0
	for drop < len(u.decided) && u.decided[drop] == ^uint64(0) {
		drop++
	}
	if drop > 0 {
		u.decided = append(u.decided[:0], u.decided[drop:]...)
		u.base += uint64(drop) * wordBits
	}
}

// count returns how many ids are delivered and not decided.
func (u *unacked) count() uint64 {
	n := u.last - u.base
	for _, w := range u.decided {
		n -= uint64(bits.OnesCount64(w)) // 0 to 64
	}
	return n
}
