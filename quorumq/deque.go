package quorumq

import "iter"

// chunkLen is the number of records in a chunk of a deque.
const chunkLen = 128

// maxFreeChunks bounds the chunks that a pool keeps for reuse.
const maxFreeChunks = 4

// record is what a deque holds: a value whose key ascends, which can be marked as
// removed while it keeps its key.
type record[T any] interface {
	*T
	key() uint64
	isRemoved() bool
	remove()
}

type chunk[T any] [chunkLen]T

// pool keeps a few empty chunks, so that a queue that grows and shrinks by a chunk does
// not allocate.
type pool[T any] struct{ free []*chunk[T] }

func (p *pool[T]) get() *chunk[T] {
	if n := len(p.free); n > 0 {
		c := p.free[n-1]
		p.free = p.free[:n-1]
		return c
	}
	return new(chunk[T])
}

func (p *pool[T]) put(c *chunk[T]) {
	if len(p.free) < maxFreeChunks {
		p.free = append(p.free, c)
	}
}

// deque is a sequence of records in ascending order of their keys: pushed at the end,
// taken from the front, removed anywhere by a mark. Marks never outnumber the live
// records by more than a chunk.
type deque[T any, P record[T]] struct {
	pool   *pool[T]
	chunks []*chunk[T] // chunks[first:] are in use
	first  int
	head   int // position of the front in the first chunk
	n      int // records from the front on, marks included
	live   int
}

func (d *deque[T, P]) len() int { return d.live }

// at returns the record at a position counted from the front.
func (d *deque[T, P]) at(i int) P {
	i += d.head
	return P(&d.chunks[d.first+i/chunkLen][i%chunkLen])
}

func (d *deque[T, P]) push(v T) {
	end := d.head + d.n
	if end == (len(d.chunks)-d.first)*chunkLen {
		if d.first > 0 && len(d.chunks) == cap(d.chunks) {
			k := copy(d.chunks, d.chunks[d.first:])
			clear(d.chunks[k:])
			d.chunks, d.first = d.chunks[:k], 0
		}
		d.chunks = append(d.chunks, d.pool.get())
	}
	d.chunks[d.first+end/chunkLen][end%chunkLen] = v
	d.n++
	d.live++
}

// front returns the first live record, nil if there is none. It stays valid until the
// deque changes.
func (d *deque[T, P]) front() P {
	if d.live == 0 {
		return nil
	}
	return d.at(0)
}

// pop takes the front away.
func (d *deque[T, P]) pop() {
	d.live--
	d.step()
	d.skip()
}

// remove marks a record that find returned.
func (d *deque[T, P]) remove(p P) {
	p.remove()
	d.live--
	d.skip()
	if d.n-d.live > d.live+chunkLen {
		d.compact()
	}
}

// skip keeps the rule that the front is live.
func (d *deque[T, P]) skip() {
	if d.live == 0 {
		d.reset()
		return
	}
	for d.at(0).isRemoved() {
		d.step()
	}
}

func (d *deque[T, P]) step() {
	d.head++
	d.n--
	if d.head == chunkLen {
		d.pool.put(d.chunks[d.first])
		d.chunks[d.first] = nil
		d.first++
		d.head = 0
	}
}

// reset empties the deque.
func (d *deque[T, P]) reset() {
	for i := d.first; i < len(d.chunks); i++ {
		d.pool.put(d.chunks[i])
	}
	clear(d.chunks)
	d.chunks = d.chunks[:0]
	d.first, d.head, d.n, d.live = 0, 0, 0, 0
}

// compact drops the marks.
func (d *deque[T, P]) compact() {
	kept := deque[T, P]{pool: d.pool}
	for p := range d.all() {
		kept.push(*p)
	}
	d.reset()
	*d = kept
}

// find returns the live record with the key, nil if there is none.
func (d *deque[T, P]) find(key uint64) P {
	i := d.search(key)
	if i == d.n {
		return nil
	}
	p := d.at(i)
	if p.key() != key || p.isRemoved() {
		return nil
	}
	return p
}

// search returns the first position whose key is at least key. Keys are often
// contiguous: the place where key would be then is tried first.
func (d *deque[T, P]) search(key uint64) int {
	if d.n == 0 {
		return 0
	}
	front := d.at(0).key()
	if key <= front {
		return 0
	}
	if guess := key - front; guess < uint64(d.n) && d.at(int(guess)).key() == key {
		return int(guess)
	}
	lo, hi := 0, d.n
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if d.at(mid).key() < key {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// all yields the live records from the front on; the deque must not change meanwhile.
func (d *deque[T, P]) all() iter.Seq[P] { return d.from(0) }

// from yields the live records from a position on.
func (d *deque[T, P]) from(i int) iter.Seq[P] {
	return func(yield func(P) bool) {
		for ; i < d.n; i++ {
			if p := d.at(i); !p.isRemoved() && !yield(p) {
				return
			}
		}
	}
}
