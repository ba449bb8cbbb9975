package quorumq

import "encoding/binary"

// maxColumns is the number of columns of the widest record.
const maxColumns = 11

// columns are the fields of a block's records, one column for each field.
type columns [maxColumns][blockLen]uint64

// shortestRun is how many equal differences make a run.
const shortestRun = 3

// appendColumn appends a column: its first value, then the differences, in runs where they are
// equal. The form depends only on the values; see docs/formats/snapshot.md.
func appendColumn(b []byte, v []uint64) []byte {
	b = putU(b, v[0])
	for i := 1; i < len(v); {
		end := runEnd(v, i)
		if end == len(v) {
			return putZ(append(b, 0), int64(v[i]-v[i-1]))
		}
		if end-i >= shortestRun {
			b = putZ(putU(b, uint64(end-i)<<1), int64(v[i]-v[i-1]))
			i = end
			continue
		}
		for end < len(v) {
			next := runEnd(v, end)
			if next-end >= shortestRun {
				break
			}
			end = next
		}
		b = putU(b, uint64(end-i)<<1|1)
		for ; i < end; i++ {
			b = putZ(b, int64(v[i]-v[i-1]))
		}
	}
	return b
}

// runEnd returns where the run of equal differences that begins at i ends.
func runEnd(v []uint64, i int) int {
	delta := v[i] - v[i-1]
	for i++; i < len(v) && v[i]-v[i-1] == delta; i++ {
		continue
	}
	return i
}

// decodeColumn fills a column, and returns the remaining bytes.
func decodeColumn(b []byte, v []uint64) (rest []byte, err error) {
	d := varints{b: b}
	last := d.u()
	v[0] = last
	for i := 1; i < len(v); {
		head := d.u()
		n := len(v) - i
		if head != 0 {
			if head>>1 > uint64(n) || head>>1 == 0 {
				return nil, errRange
			}
			n = int(head >> 1)
		}
		if head&1 != 0 {
			for range n {
				last += d.z()
				v[i] = last
				i++
			}
			continue
		}
		delta := d.z()
		for range n {
			last += delta
			v[i] = last
			i++
		}
	}
	if d.bad {
		return nil, errShort
	}
	return d.b, nil
}

// steps walks along a column in runs of equal differences.
type steps struct {
	varints
	value   uint64 // of the current record
	left    int    // records after it
	delta   uint64
	n       int // how many more times delta applies
	literal int // how many single deltas follow
}

// beginSteps begins a walk along the column at the start of b, which has this many records.
func beginSteps(b []byte, records int) steps {
	s := steps{varints: varints{b: b}, left: records - 1}
	s.value = s.u()
	return s
}

// load makes n positive, unless the column has ended.
func (s *steps) load() {
	if s.n > 0 || s.left == 0 {
		return
	}
	if s.literal == 0 {
		head := s.u()
		switch {
		case head == 0:
			s.n = s.left
		case head&1 == 0:
			s.n = int(head >> 1)
		default:
			s.literal = int(head >> 1)
		}
	}
	if s.literal > 0 {
		s.literal--
		s.n = 1
	}
	s.delta = s.z()
}

// advance moves on by k records, at most n.
func (s *steps) advance(k int) {
	s.value += uint64(k) * s.delta
	s.n -= k
	s.left -= k
}

// skip moves on by k records, and returns the value of that record.
func (s *steps) skip(k int) uint64 {
	for k > 0 {
		s.load()
		n := min(k, s.n)
		s.advance(n)
		k -= n
	}
	return s.value
}

// end moves past the last record, and returns what follows the column.
func (s *steps) end() []byte {
	for s.load(); s.left > 0; s.load() {
		s.advance(s.n)
	}
	return s.b
}

// varints reads numbers one after another. bad reports that one could not be read.
type varints struct {
	b   []byte
	bad bool
}

// u reads an unsigned number.
func (d *varints) u() uint64 {
	if len(d.b) > 0 && d.b[0] < 0x80 {
		v := d.b[0]
		d.b = d.b[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

// z reads a signed number in zigzag form, as a difference.
func (d *varints) z() uint64 {
	v := d.u()
	return v>>1 ^ -(v & 1)
}
