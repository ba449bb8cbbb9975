package wal

import "slices"

// chunkEntries is how many consecutive indexes share a piece of memory.
const chunkEntries = 32

// loc is where a record is. A size of 0 is nowhere.
type loc struct{ seg, off, size uint32 }

// end is where the record ends.
func (at loc) end() uint32 { return at.off + at.size }

// chunk has the places of chunkEntries neighbouring entries, so that an index of many takes little memory.
type chunk struct {
	base uint64 // a multiple of chunkEntries
	n    int    // entries that are there
	locs [chunkEntries]loc
}

// index maps a group's indexes to places: 12 bytes an entry in chunks that ascend.
type index struct{ chunks []*chunk }

// find returns the first chunk that ends behind the index.
func (x *index) find(i uint64) int {
	base := i &^ (chunkEntries - 1)
	if n := len(x.chunks); n > 0 && x.chunks[n-1].base <= base {
		if x.chunks[n-1].base == base {
			return n - 1
		}
		return n
	}
	at, _ := slices.BinarySearchFunc(x.chunks, base, func(c *chunk, base uint64) int {
		switch {
		case c.base < base:
			return -1
		case c.base > base:
			return 1
		}
		return 0
	})
	return at
}

// get is the zero loc for an entry that is not there.
func (x *index) get(i uint64) loc {
	at := x.find(i)
	if at == len(x.chunks) || x.chunks[at].base > i {
		return loc{}
	}
	return x.chunks[at].locs[i%chunkEntries]
}

// set stores a place and returns the one that it replaces.
func (x *index) set(i uint64, to loc) loc {
	at := x.find(i)
	if at == len(x.chunks) || x.chunks[at].base > i {
		x.chunks = slices.Insert(x.chunks, at, &chunk{base: i &^ (chunkEntries - 1)})
	}
	c := x.chunks[at]
	was := c.locs[i%chunkEntries]
	if was.size == 0 {
		c.n++
	}
	c.locs[i%chunkEntries] = to
	return was
}

// all calls visit for the entries in s, ascending, until it returns false.
func (x *index) all(s span, visit func(i uint64, l loc) bool) {
	for _, c := range x.chunks[x.find(s.lo):] {
		if c.base >= s.hi {
			return
		}
		for k, l := range &c.locs {
			i := c.base + uint64(k)
			if l.size != 0 && i >= s.lo && i < s.hi && !visit(i, l) {
				return
			}
		}
	}
}

// spans returns which entries there are in a window.
func (x *index) spans(window span) []span {
	var spans []span
	for _, c := range x.chunks[x.find(window.lo):] {
		if c.base >= window.hi {
			break
		}
		if c.n == chunkEntries && c.base >= window.lo && c.base+chunkEntries <= window.hi {
			if n := len(spans); n > 0 && spans[n-1].hi == c.base {
				spans[n-1].hi += chunkEntries
			} else {
				spans = append(spans, span{c.base, c.base + chunkEntries})
			}
			continue
		}
		for k, l := range &c.locs {
			if i := c.base + uint64(k); l.size != 0 && i >= window.lo && i < window.hi {
				spans = addIndex(spans, i)
			}
		}
	}
	return spans
}

// remove forgets the entries in s for which dead returns true; free gets their places.
func (x *index) remove(s span, dead func(i uint64) bool, free func(loc)) {
	from := x.find(s.lo)
	to := from
	for _, c := range x.chunks[from:] {
		if c.base >= s.hi {
			break
		}
		to++
		for k, l := range &c.locs {
			i := c.base + uint64(k)
			if l.size != 0 && i >= s.lo && i < s.hi && dead(i) {
				c.locs[k] = loc{}
				c.n--
				free(l)
			}
		}
	}
	kept := slices.DeleteFunc(x.chunks[from:to], func(c *chunk) bool { return c.n == 0 })
	if len(kept) != to-from {
		x.chunks = slices.Delete(x.chunks, from+len(kept), to)
	}
	if len(x.chunks) == 0 {
		x.chunks = nil
	}
}

func always(uint64) bool { return true }
