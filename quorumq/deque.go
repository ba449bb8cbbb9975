package quorumq

import (
	"iter"
	"slices"
)

// openBlocks is how many blocks at the front are not packed. So a short queue never packs, and a
// long one packs and unpacks each message once.
const openBlocks = 8

// deque is a sequence of records in ascending order of their keys. Records are pushed at the end,
// popped at the front, and removed anywhere. The keys alone decide which records share a block. The
// front is in an open block.
type deque[T any, P record[T]] struct {
	pool   *pool[T, P]
	tag    uint64
	blocks []*block[T] // blocks[first:] are in use, ascending
	first  int
	head   int // place of the front in the first block
	live   int
	empty  int // blocks without records
}

// len returns the number of records. A nil deque is empty, for len and front.
func (d *deque[T, P]) len() int {
	if d == nil {
		return 0
	}
	return d.live
}

// push appends a record. Its key must be above all others.
func (d *deque[T, P]) push(key uint64, v T) {
	b := d.tail(key >> blockBits)
	i := int(key % blockLen)
	b.open[i] = v
	b.live.set(i)
	if d.live == 0 {
		d.head = i
	}
	d.live++
}

// tail returns the last block; it has this id, and may be changed.
func (d *deque[T, P]) tail(id uint64) *block[T] {
	if n := len(d.blocks) - 1; n >= d.first {
		b := d.blocks[n]
		if b.id == id {
			return d.ownOpen(n)
		}
		if b.open != nil && n-d.first >= openBlocks {
			d.blocks[n] = d.pool.pack(b, d.tag)
		}
	}
	if d.first > 0 && len(d.blocks) == cap(d.blocks) {
		k := copy(d.blocks, d.blocks[d.first:])
		clear(d.blocks[k:])
		d.blocks, d.first = d.blocks[:k], 0
	}
	b := d.pool.get(id)
	d.blocks = append(d.blocks, b)
	return b
}

// own makes the block at i one from which records may be removed, and returns it.
func (d *deque[T, P]) own(i int) *block[T] {
	b := d.blocks[i]
	switch {
	case b.gen == d.pool.gen:
		return b
	case b.open != nil:
		return d.ownOpen(i)
	}
	c := *b
	c.gen = d.pool.gen
	d.blocks[i] = &c
	return &c
}

// ownOpen makes the block at i one to which records may be added, and returns it.
func (d *deque[T, P]) ownOpen(i int) *block[T] {
	b := d.blocks[i]
	if b.open != nil && b.gen == d.pool.gen {
		return b
	}
	c := d.pool.get(b.id)
	switch {
	case b.open != nil:
		c.live = b.live
		*c.open = *b.open
	case b.packed != nil:
		d.pool.unpack(b, c, d.tag)
	default:
		d.empty--
	}
	d.blocks[i] = c
	return c
}

// front returns the first record, or nil if the deque is empty. The record may only be read, and only until the deque
// changes.
func (d *deque[T, P]) front() P {
	if d.len() == 0 {
		return nil
	}
	return &d.blocks[d.first].open[d.head]
}

// pop removes the front.
func (d *deque[T, P]) pop() {
	d.own(d.first).live.clear(d.head)
	d.live--
	d.skip()
}

// skip finds the new front.
func (d *deque[T, P]) skip() {
	if d.live == 0 {
		d.reset()
		return
	}
	for {
		b := d.blocks[d.first]
		if d.head = b.live.next(d.head); d.head < blockLen {
			if b.open == nil {
				d.ownOpen(d.first)
			}
			return
		}
		if b.open == nil && b.packed == nil {
			d.empty--
		}
		d.pool.put(b)
		d.blocks[d.first] = nil
		d.first++
		d.head = 0
	}
}

// reset empties the deque.
func (d *deque[T, P]) reset() {
	for _, b := range d.blocks[d.first:] {
		d.pool.put(b)
	}
	clear(d.blocks)
	d.blocks = d.blocks[:0]
	if cap(d.blocks) > blockLen {
		d.blocks = nil
	}
	d.first, d.head, d.live, d.empty = 0, 0, 0, 0
}

// place returns the block that a key belongs to, or else the next one.
func (d *deque[T, P]) place(key uint64) (at int, found bool) {
	in := d.blocks[d.first:]
	id := key >> blockBits
	if len(in) == 0 || id < in[0].id {
		return d.first, false
	}
	if guess := id - in[0].id; guess < uint64(len(in)) && in[guess].id == id {
		return d.first + int(guess), true
	}
	i, found := slices.BinarySearchFunc(in, id, func(b *block[T], id uint64) int {
		switch {
		case b.id < id:
			return -1
		case b.id > id:
			return 1
		}
		return 0
	})
	return d.first + i, found
}

// has reports whether the record with the key is there.
func (d *deque[T, P]) has(key uint64) bool {
	at, found := d.place(key)
	return found && d.blocks[at].live.has(int(key%blockLen))
}

// begin returns where a walk from key on begins: the block, and the place in it.
func (d *deque[T, P]) begin(key uint64) (at, i int) {
	at, found := d.place(key)
	if found {
		i = int(key % blockLen)
	}
	return at, i
}

// next returns the first key, from key on, that has a record.
func (d *deque[T, P]) next(key uint64) (uint64, bool) {
	at, i := d.begin(key)
	for ; at < len(d.blocks); at++ {
		b := d.blocks[at]
		if i = b.live.next(i); i < blockLen {
			return b.id<<blockBits | uint64(i), true
		}
		i = 0
	}
	return 0, false
}

// get returns the record with a key; false if there is none.
func (d *deque[T, P]) get(key uint64) (v T, ok bool) {
	at, found := d.place(key)
	i := int(key % blockLen)
	if !found || !d.blocks[at].live.has(i) {
		return v, false
	}
	return d.pool.at(d.blocks[at], i, d.tag), true
}

// remove removes the record with a key and returns it; false if there is none.
func (d *deque[T, P]) remove(key uint64) (v T, ok bool) {
	at, found := d.place(key)
	i := int(key % blockLen)
	if !found || !d.blocks[at].live.has(i) {
		return v, false
	}
	v = d.pool.at(d.blocks[at], i, d.tag)
	b := d.own(at)
	b.live.clear(i)
	d.live--
	switch {
	case at == d.first:
		d.skip()
	case b.live == bitmap{}:
		d.vacate(at)
	case b.packed != nil && 2*b.live.count() < b.stored:
		d.blocks[at] = d.pool.pack(b, d.tag)
	}
	return v, true
}

// vacate drops a block whose last record has left, but keeps its position, so that blocks can be
// found by their distance. There are never many such positions.
func (d *deque[T, P]) vacate(at int) {
	b := d.blocks[at]
	d.blocks[at] = &block[T]{id: b.id, gen: d.pool.gen}
	d.pool.put(b)
	d.empty++
	if d.empty <= openBlocks+(len(d.blocks)-d.first)/2 {
		return
	}
	kept := slices.DeleteFunc(d.blocks[d.first:], func(b *block[T]) bool { return b.live == bitmap{} })
	d.blocks = d.blocks[:d.first+len(kept)]
	d.empty = 0
}

// all yields the records from the front on. Each is valid until the next; the deque must not change
// meanwhile.
func (d *deque[T, P]) all() iter.Seq[P] { return d.from(0) }

// from yields the records from a key on.
func (d *deque[T, P]) from(key uint64) iter.Seq[P] {
	return func(yield func(P) bool) {
		at, i := d.begin(key)
		var unpacked *block[T]
		for _, b := range d.blocks[at:] {
			if b.packed != nil {
				if unpacked == nil {
					unpacked = newBlock[T](d.pool.gen)
				}
				d.pool.unpack(b, unpacked, d.tag)
				b = unpacked
			}
			for i = b.live.next(i); i < blockLen; i = b.live.next(i + 1) {
				if !yield(&b.open[i]) {
					return
				}
			}
			i = 0
		}
	}
}

// checkBlocks verifies the counts of a deque.
func checkBlocks[T any, P record[T]](d *deque[T, P]) error {
	live, empty := 0, 0
	for i, b := range d.blocks[d.first:] {
		n := b.live.count()
		live += n
		if n == 0 {
			empty++
		}
		switch {
		case i > 0 && b.id <= d.blocks[d.first+i-1].id:
			return inv("block %d after %d", b.id, d.blocks[d.first+i-1].id)
		case b.gen > d.pool.gen || b.open != nil && b.packed != nil || n > 0 && b.open == nil && b.packed == nil:
			return inv("block %d of generation %d, now %d, is in two forms or in none", b.id, b.gen, d.pool.gen)
		case i == 0 && d.live > 0 && (b.open == nil || b.live.next(0) != d.head):
			return inv("block %d does not begin with the front", b.id)
		}
	}
	if live != d.live || empty != d.empty {
		return inv("blocks hold %d records, %d are empty; counted %d, %d", live, empty, d.live, d.empty)
	}
	return nil
}

// skipped returns the first key, from key on, after n records, and by how many records n exceeds
// those that there are.
func skipped[T any, P record[T]](d *deque[T, P], key, n uint64) (next, left uint64) {
	if n == 0 {
		return key, 0
	}
	at, i := d.begin(key)
	for ; at < len(d.blocks); at++ {
		b := d.blocks[at]
		here := uint64(b.live.count() - b.live.rank(min(i, blockLen-1)))
		if n >= here {
			n -= here
			key = (b.id + 1) << blockBits
			i = 0
			continue
		}
		for ; n > 0; n-- {
			i = b.live.next(i) + 1
		}
		return b.id<<blockBits | uint64(i), 0
	}
	return key, n
}
