package raftfsm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// maxLiveSlots bounds the bodies of one entry that a live set may name: no entry within
// maxEntryBytes has more.
const maxLiveSlots = maxEntryBytes / bodyRowBytes

// A live set names the bodies that a state refers to, in few bytes: groups of entries at
// equal distances that have the same slots, see docs/formats/group-snapshot.md.
type liveSet []byte

// liveGroup is entries from index on, stride apart, of which the same slots are live.
type liveGroup struct {
	index, entries, stride uint64
	runs                   []uint32 // start and end of each run of slots
}

func (l *liveGroup) last() uint64 { return l.index + (l.entries-1)*l.stride }

// join adds entries behind the group; false if they do not fit on.
func (l *liveGroup) join(o *liveGroup) bool {
	delta := o.index - l.last()
	if l.entries > 1 && delta != l.stride || o.entries > 1 && delta != o.stride || !slices.Equal(l.runs, o.runs) {
		return false
	}
	l.entries += o.entries
	l.stride = delta
	return true
}

// liveBuilder makes a live set of runs in the order of Frozen.Live.
type liveBuilder struct {
	set     liveSet
	entries uint64
	bodies  uint64
	written uint64    // last index in set
	done    liveGroup // complete; entries 0: none
	open    liveGroup // takes more slots as long as it is one entry; entries 0: none
}

// add refuses what a machine cannot mean: the set is written to disk and sent, and what it leaves out is
// deleted.
func (b *liveBuilder) add(r BodyRun) error {
	end := uint64(r.Slot) + uint64(r.Slots)
	if r.Index == 0 || r.Entries == 0 || r.Slots == 0 || end > maxLiveSlots || !r.fits() {
		return fmt.Errorf("machine refers to %d bodies from %d on of %d entries from %d on, which cannot be", r.Slots, r.Slot, r.Entries, r.Index)
	}
	b.bodies += r.Entries * uint64(r.Slots)
	if o := &b.open; o.entries > 0 {
		n := len(o.runs)
		switch last := o.last(); {
		case r.Index > last:
		case r.Index < last || o.entries > 1 || r.Entries > 1 || r.Slot < o.runs[n-1]:
			return fmt.Errorf("live bodies do not ascend: body %d of entry %d after body %d of entry %d", r.Slot, r.Index, o.runs[n-1]-1, last)
		case r.Slot == o.runs[n-1]:
			o.runs[n-1] = uint32(end)
			return nil
		default:
			o.runs = append(o.runs, r.Slot, uint32(end))
			return nil
		}
	}
	b.closeOpen()
	b.entries += r.Entries
	b.open = liveGroup{index: r.Index, entries: r.Entries, stride: r.Stride, runs: append(b.open.runs[:0], r.Slot, uint32(end))}
	return nil
}

// fits reports whether the last entry's index is a number at all.
func (r *BodyRun) fits() bool {
	if r.Entries == 1 {
		return true
	}
	return r.Stride > 0 && (r.Entries-1) <= (^uint64(0)-r.Index)/r.Stride
}

// closeOpen joins the open entries to the complete ones.
func (b *liveBuilder) closeOpen() {
	if b.open.entries == 0 || b.done.entries > 0 && b.done.join(&b.open) {
		b.open.entries = 0
		return
	}
	b.write()
	b.done, b.open = b.open, liveGroup{runs: b.done.runs}
}

// write appends the complete entries to the set.
func (b *liveBuilder) write() {
	l := &b.done
	if l.entries == 0 {
		return
	}
	b.set = binary.AppendUvarint(b.set, l.index-b.written)
	b.set = binary.AppendUvarint(b.set, l.entries)
	if l.entries > 1 {
		b.set = binary.AppendUvarint(b.set, l.stride)
	}
	b.set = binary.AppendUvarint(b.set, uint64(len(l.runs)/2))
	var end uint32
	for i := 0; i < len(l.runs); i += 2 {
		b.set = binary.AppendUvarint(b.set, uint64(l.runs[i]-end))
		b.set = binary.AppendUvarint(b.set, uint64(l.runs[i+1]-l.runs[i]))
		end = l.runs[i+1]
	}
	b.written = l.last()
	l.entries = 0
}

func (b *liveBuilder) finish() {
	b.closeOpen()
	b.write()
}

// groups calls f with each group, which is valid during the call, and stops at f's first
// error.
func (l liveSet) groups(f func(liveGroup) error) error {
	var g liveGroup
	var last uint64
	d := uvarints{b: l}
	for len(d.b) > 0 {
		delta := d.next()
		g.index, g.entries, g.stride = last+delta, d.next(), 0
		if g.entries > 1 {
			g.stride = d.next()
		}
		n := d.next()
		r := BodyRun{Index: g.index, Entries: g.entries, Stride: g.stride}
		if d.bad || delta == 0 || g.index < last || g.entries == 0 || !r.fits() || n == 0 {
			return corruptf("live set after entry %d", last)
		}
		g.runs = g.runs[:0]
		var end uint64
		for i := range n {
			gap, length := d.next(), d.next()
			if d.bad || gap > maxLiveSlots || length == 0 || length > maxLiveSlots || end+gap+length > maxLiveSlots || i > 0 && gap == 0 {
				return corruptf("live set at entry %d", g.index)
			}
			g.runs = append(g.runs, uint32(end+gap), uint32(end+gap+length))
			end += gap + length
		}
		last = g.last()
		if err := f(g); err != nil {
			return err
		}
	}
	return nil
}

// check reports whether the set is well formed.
func (l liveSet) check() error { return l.groups(func(liveGroup) error { return nil }) }

// each calls f with every entry's index and slots, which are valid during the call, and
// stops at f's first error.
func (l liveSet) each(f func(index uint64, slots []uint32) error) error {
	var slots []uint32
	return l.groups(func(g liveGroup) error {
		slots = slots[:0]
		for i := 0; i < len(g.runs); i += 2 {
			for s := g.runs[i]; s < g.runs[i+1]; s++ {
				slots = append(slots, s)
			}
		}
		for i := range g.entries {
			if err := f(g.index+i*g.stride, slots); err != nil {
				return err
			}
		}
		return nil
	})
}

// errStop ends a walk whose caller has enough.
var errStop = errors.New("stop")

// spans yields ranges of the entries' indexes, both ends included, ascending. A set that
// check refuses ends early.
func (l liveSet) spans() iter.Seq2[uint64, uint64] {
	return func(yield func(first, last uint64) bool) {
		// The error is only of how the ranges end: the set was checked when it was loaded.
		_ = l.groups(func(g liveGroup) error {
			if g.entries == 1 || g.stride == 1 {
				if !yield(g.index, g.last()) {
					return errStop
				}
				return nil
			}
			for i := range g.entries {
				if index := g.index + i*g.stride; !yield(index, index) {
					return errStop
				}
			}
			return nil
		})
	}
}

// uvarints reads numbers one after another and remembers whether one was cut off.
type uvarints struct {
	b   []byte
	bad bool
}

// next is 0 once the bytes are at an end or malformed, which bad reports.
func (d *uvarints) next() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}
