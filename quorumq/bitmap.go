package quorumq

import "math/bits"

// A block holds the records whose keys are equal except for their last blockBits bits.
const (
	blockBits = 7
	blockLen  = 1 << blockBits // keys that share a block
)

// bitmap marks places in a block.
type bitmap [blockLen / 64]uint64

func (m *bitmap) has(i int) bool { return m[i>>6]>>(i&63)&1 != 0 }
func (m *bitmap) set(i int)      { m[i>>6] |= 1 << (i & 63) }
func (m *bitmap) clear(i int)    { m[i>>6] &^= 1 << (i & 63) }

// count returns how many places are marked.
func (m *bitmap) count() int {
	n := 0
	for _, w := range m {
		n += bits.OnesCount64(w)
	}
	return n
}

// rank returns how many places below i are marked.
func (m *bitmap) rank(i int) int {
	n := bits.OnesCount64(m[i>>6] & (1<<(i&63) - 1))
	for _, w := range m[:i>>6] {
		n += bits.OnesCount64(w)
	}
	return n
}

// next returns the first marked place from i on, or blockLen if none is marked.
func (m *bitmap) next(i int) int {
	for i < blockLen {
		if w := m[i>>6] >> (i & 63); w != 0 {
			return i + bits.TrailingZeros64(w)
		}
		i = i&^63 + 64
	}
	return blockLen
}

// appendPlaces appends which places of a block are taken. It appends 0 if all are. Otherwise it
// appends the number of runs and, for each run, the number of free places before it and its length
// less one.
func appendPlaces(b []byte, m *bitmap) []byte {
	if *m == fullBitmap() {
		return append(b, 0)
	}
	at := len(b)
	b = append(b, 0)
	for i, end := m.next(0), 0; i < blockLen; i = m.next(end) {
		first := i
		for i < blockLen && m.has(i) {
			i++
		}
		b = append(b, byte(first-end), byte(i-first-1)) // both below blockLen: a byte each
		end = i
		b[at]++
	}
	return b
}

// fullBitmap has every place marked.
func fullBitmap() (m bitmap) {
	for i := range m {
		m[i] = ^uint64(0)
	}
	return m
}

// decodePlaces marks the places, and returns the remaining bytes.
func decodePlaces(b []byte, m *bitmap) (rest []byte, err error) {
	if len(b) == 0 {
		return nil, errShort
	}
	runs := int(b[0])
	b = b[1:]
	if runs == 0 {
		*m = fullBitmap()
		return b, nil
	}
	*m = bitmap{}
	if len(b) < 2*runs {
		return nil, errShort
	}
	at := 0
	for range runs {
		first, end := at+int(b[0]), at+int(b[0])+int(b[1])+1
		if end > blockLen {
			return nil, errRange
		}
		for at = first; at < end; at++ {
			m.set(at)
		}
		b = b[2:]
	}
	return b, nil
}
