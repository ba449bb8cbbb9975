package raftfsm

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/quorate/quorate/id"
)

// bodySet finds the bodies of one entry, be it whole or sparse.
type bodySet struct {
	data  []byte
	ends  []uint32 // where each body ends; the first begins at first
	first uint32
	slots []uint32 // ascending slots of a sparse entry; nil if all are there
}

// bodySet returns the entry's bodies.
func (e *entry) bodySet() *bodySet {
	s := &bodySet{data: e.data, first: uint32(e.first), ends: make([]uint32, e.bodies)}
	end := s.first
	for i := range s.ends {
		end += binary.LittleEndian.Uint32(e.data[e.lengths+i*bodyRowBytes:])
		s.ends[i] = end
	}
	return s
}

// openBodies checks an entry as it is stored, whole or sparse, and finds its bodies.
func openBodies(g id.GroupID, index uint64, data []byte) (*bodySet, error) {
	if len(data) > 1 && data[1]&flagSparse != 0 {
		return decodeSparse(g, index, data)
	}
	e, err := decodeEntry(g, data)
	if err != nil {
		return nil, err
	}
	return e.bodySet(), nil
}

// body returns the body at a slot.
func (s *bodySet) body(slot uint32) ([]byte, bool) {
	at := int64(slot)
	if s.slots != nil {
		at = searchSlot(s.slots, slot)
	}
	if at < 0 || at >= int64(len(s.ends)) {
		return nil, false
	}
	start := s.first
	if at > 0 {
		start = s.ends[at-1]
	}
	end := s.ends[at]
	return s.data[start:end:end], true
}

// searchSlot returns the place of slot in ascending slots, or -1.
func searchSlot(slots []uint32, slot uint32) int64 {
	low, high := 0, len(slots)
	for low < high {
		mid := int(uint(low+high) >> 1)
		if slots[mid] < slot {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low < len(slots) && slots[low] == slot {
		return int64(low)
	}
	return -1
}

// memoryBytes is what the set keeps in memory.
func (s *bodySet) memoryBytes() int64 {
	return int64(len(s.data)) + 4*int64(len(s.ends)+len(s.slots)) + 128
}

// sparseBytes is the size of a sparse entry of n bodies with so many bytes.
func sparseBytes(n int, bodyBytes int64) int64 {
	return sparseHeadBytes + int64(n)*sparseRowBytes + bodyBytes
}

// appendSparse appends a sparse entry of the given slots of a set, ascending.
func appendSparse(b []byte, g id.GroupID, index uint64, s *bodySet, slots []uint32) ([]byte, error) {
	t := castagnoli()
	base := indexSum(t, g, index)
	b = append(b, entryVersion, flagSparse, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(slots)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Update(base, t, b[len(b)-8:]))
	for _, slot := range slots {
		body, ok := s.body(slot)
		if !ok || len(body) > math.MaxInt32 {
			return nil, fmt.Errorf("entry %d has no body %d", index, slot)
		}
		row := len(b)
		b = binary.LittleEndian.AppendUint32(b, slot)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(body)))
		sum := crc32.Update(crc32.Update(base, t, b[row:]), t, body)
		b = binary.LittleEndian.AppendUint32(b, sum)
	}
	for _, slot := range slots {
		body, _ := s.body(slot)
		b = append(b, body...)
	}
	return b, nil
}

func indexSum(t *crc32.Table, g id.GroupID, index uint64) uint32 {
	return sumNumber(groupSum(t, g), t, index, 8)
}

// decodeSparse checks a sparse entry and finds its bodies.
func decodeSparse(g id.GroupID, index uint64, data []byte) (*bodySet, error) {
	if len(data) < sparseHeadBytes || len(data) > maxEntryBytes {
		return nil, corruptf("sparse entry of %d bytes", len(data))
	}
	if data[0] != entryVersion || data[1] != flagSparse || data[2] != 0 || data[3] != 0 {
		return nil, corruptf("sparse entry version %d flags %#x", data[0], data[1:4])
	}
	t := castagnoli()
	base := indexSum(t, g, index)
	sum := crc32.Update(base, t, data[:8])
	if want := binary.LittleEndian.Uint32(data[8:]); sum != want {
		return nil, corruptf("head of sparse entry has checksum %08x, stored is %08x", sum, want)
	}
	count := uint64(binary.LittleEndian.Uint32(data[4:]))
	if count > uint64(len(data)-sparseHeadBytes)/sparseRowBytes {
		return nil, corruptf("%d bodies do not fit in %d bytes", count, len(data))
	}
	s := &bodySet{data: data, slots: make([]uint32, count), ends: make([]uint32, count)}
	end := sparseHeadBytes + count*sparseRowBytes
	s.first = uint32(end)
	for i := range s.slots {
		row := data[sparseHeadBytes+i*sparseRowBytes:][:sparseRowBytes]
		s.slots[i] = binary.LittleEndian.Uint32(row)
		if i > 0 && s.slots[i] <= s.slots[i-1] {
			return nil, corruptf("slots of sparse entry do not ascend")
		}
		start := end
		end += uint64(binary.LittleEndian.Uint32(row[4:]))
		if end > uint64(len(data)) {
			return nil, corruptf("body %d of sparse entry is cut off", s.slots[i])
		}
		sum := crc32.Update(crc32.Update(base, t, row[:8]), t, data[start:end])
		if want := binary.LittleEndian.Uint32(row[8:]); sum != want {
			return nil, corruptf("body %d has checksum %08x, stored is %08x", s.slots[i], sum, want)
		}
		s.ends[i] = uint32(end)
	}
	if end != uint64(len(data)) {
		return nil, corruptf("%d bytes after the last body", uint64(len(data))-end)
	}
	return s, nil
}
