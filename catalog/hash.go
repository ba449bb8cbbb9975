package catalog

import (
	"math"

	"github.com/quorate/quorate/message"
)

// digest is a 64-bit FNV-1a hash with the finalizer of MurmurHash3, which spreads short inputs over
// all bits. Routing depends on it (EX-14), so it never changes; docs/formats/catalog.md defines it.
type digest uint64

const (
	digestStart digest = 0xcbf29ce484222325
	digestPrime digest = 0x100000001b3
)

func (d digest) byte(b byte) digest { return (d ^ digest(b)) * digestPrime }

// text adds the bytes of a text, without its length.
func (d digest) text(s string) digest {
	for i := range len(s) {
		d = d.byte(s[i])
	}
	return d
}

// number adds eight bytes, the lowest first, whatever the machine's byte order.
func (d digest) number(n uint64) digest {
	for range 8 {
		d = d.byte(byte(n))
		n >>= 8
	}
	return d
}

// sum applies the finalizer. Every bit of the result depends on all the input, which the ring and
// the modulo both need.
func (d digest) sum() uint64 {
	h := uint64(d)
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return h
}

// hashText is the hash of a text alone.
func hashText(s string) uint64 { return digestStart.text(s).sum() }

// value adds a value; values that are equal by class (message.Value.EqualClass) give equal digests.
// Its results exist only in memory.
func (d digest) value(v message.Value) digest {
	if n, ok := v.AsInt(); ok {
		return d.byte('i').number(uint64(n))
	}
	if n, ok := v.AsUint(); ok { // above the largest int64
		return d.byte('u').number(n)
	}
	if f, ok := v.AsFloat(); ok {
		switch {
		case f == 0:
			f = 0 // -0 equals 0
		case math.IsNaN(f):
			f = math.NaN()
		}
		return d.byte('f').number(math.Float64bits(f))
	}
	if s, ok := v.AsString(); ok {
		return d.byte('s').text(s)
	}
	// Other kinds are rare in bindings: they meet in one bucket by their kind.
	return d.byte('k').byte(byte(v.Kind()))
}
