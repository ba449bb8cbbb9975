package raftfsm

import (
	"encoding/binary"
	"fmt"
	"iter"
)

// maxLiveSlots bounds the bodies of one entry that a live set may name: no entry within
// maxEntryBytes has more.
const maxLiveSlots = maxEntryBytes / bodyRowBytes

// A live set names the bodies that a state refers to, in few bytes: per entry the
// distance from the entry before, the number of runs, and per run the gap before it and
// its length, all as uvarints. See docs/formats/group-snapshot.md.
type liveSet []byte

// liveBuilder makes a live set of references that ascend.
type liveBuilder struct {
	set     liveSet
	entries uint64
	bodies  uint64
	last    uint64   // index of the newest finished entry
	index   uint64   // index of the entry that is being gathered; 0: none
	runs    []uint32 // start and end of each run
}

func (b *liveBuilder) add(ref BodyRef) error {
	if ref.Index == 0 || ref.Slot >= maxLiveSlots {
		return fmt.Errorf("machine refers to body %d of entry %d, which cannot be", ref.Slot, ref.Index)
	}
	if ref.Index != b.index {
		if ref.Index < b.index {
			return fmt.Errorf("live bodies do not ascend: entry %d after %d", ref.Index, b.index)
		}
		b.finish()
		b.index = ref.Index
	}
	b.bodies++
	n := len(b.runs)
	switch {
	case n > 0 && ref.Slot == b.runs[n-1]:
		b.runs[n-1]++
	case n > 0 && ref.Slot < b.runs[n-1]:
		return fmt.Errorf("live bodies do not ascend: body %d of entry %d after %d", ref.Slot, ref.Index, b.runs[n-1]-1)
	default:
		b.runs = append(b.runs, ref.Slot, ref.Slot+1)
	}
	return nil
}

func (b *liveBuilder) finish() {
	if b.index == 0 {
		return
	}
	b.entries++
	b.set = binary.AppendUvarint(b.set, b.index-b.last)
	b.set = binary.AppendUvarint(b.set, uint64(len(b.runs)/2))
	var end uint32
	for i := 0; i < len(b.runs); i += 2 {
		b.set = binary.AppendUvarint(b.set, uint64(b.runs[i]-end))
		b.set = binary.AppendUvarint(b.set, uint64(b.runs[i+1]-b.runs[i]))
		end = b.runs[i+1]
	}
	b.last, b.runs = b.index, b.runs[:0]
}

// each calls f with every entry's index and slots, which are valid during the call, and
// stops at f's first error.
func (l liveSet) each(f func(index uint64, slots []uint32) error) error {
	var slots []uint32
	var index uint64
	d := uvarints{b: l}
	for len(d.b) > 0 {
		delta, runs := d.next(), d.next()
		if d.bad || delta == 0 || index+delta < index || runs == 0 {
			return corruptf("live set after entry %d", index)
		}
		index += delta
		slots = slots[:0]
		var end uint64
		for range runs {
			gap, n := d.next(), d.next()
			if d.bad || gap > maxLiveSlots || n == 0 || n > maxLiveSlots || end+gap+n > maxLiveSlots {
				return corruptf("live set at entry %d", index)
			}
			for slot := end + gap; slot < end+gap+n; slot++ {
				slots = append(slots, uint32(slot))
			}
			end += gap + n
		}
		if err := f(index, slots); err != nil {
			return err
		}
	}
	return nil
}

// indexes yields the entries' indexes, ascending. A set that each refuses ends early.
func (l liveSet) indexes() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		var index uint64
		d := uvarints{b: l}
		for len(d.b) > 0 {
			index += d.next()
			for n := d.next(); n > 0 && !d.bad; n-- {
				d.next()
				d.next()
			}
			if d.bad || !yield(index) {
				return
			}
		}
	}
}

// uvarints reads numbers one after another and remembers whether one was cut off.
type uvarints struct {
	b   []byte
	bad bool
}

func (d *uvarints) next() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}
