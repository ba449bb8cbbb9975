package quorumq

import "bytes"

// maxFreeBlocks limits the open blocks that a pool keeps for reuse.
const maxFreeBlocks = 4

// block holds the records of a deque whose keys are equal except for their last bits. It is open,
// with a place for each key, or packed. When all records have left, it is neither.
//
// A frozen state shares blocks with the queue, so only blocks of the newest generation may change.
// Packed bytes never change.
type block[T any] struct {
	id     uint64 // key / blockLen
	gen    uint64
	live   bitmap
	open   *[blockLen]T
	packed []byte
	stored int // records in packed, including those that have left
}

// pool makes the blocks of deques of one kind. It keeps a few open ones, so that a queue that grows
// and shrinks by a block does not allocate each time.
type pool[T any, P record[T]] struct {
	free []*block[T]
	gen  uint64 // current generation; Freeze raises it
	codec[T, P]
	buf     []byte
	scratch *block[T] // for repacking a packed block
	one     T         // for one record of a packed block
}

func newBlock[T any](gen uint64) *block[T] {
	return &block[T]{gen: gen, open: new([blockLen]T)}
}

// get returns an open block without records.
func (p *pool[T, P]) get(id uint64) *block[T] {
	var b *block[T]
	if n := len(p.free); n > 0 {
		b = p.free[n-1]
		p.free = p.free[:n-1]
	} else {
		b = newBlock[T](p.gen)
	}
	b.id, b.gen, b.live = id, p.gen, bitmap{}
	return b
}

// put takes back a block that its deque no longer refers to.
func (p *pool[T, P]) put(b *block[T]) {
	if b.open != nil && b.gen == p.gen && len(p.free) < maxFreeBlocks {
		p.free = append(p.free, b)
	}
}

// pack returns a packed block to replace b, which the deque no longer uses.
func (p *pool[T, P]) pack(b *block[T], tag uint64) *block[T] {
	packed := p.packed(b, tag)
	p.put(b)
	return packed
}

// packed returns a packed block with the records of b.
func (p *pool[T, P]) packed(b *block[T], tag uint64) *block[T] {
	from := b
	if b.open == nil {
		from = p.load(b, tag)
	}
	p.buf = p.appendBlock(p.buf[:0], from)
	return &block[T]{id: b.id, gen: p.gen, live: b.live, packed: bytes.Clone(p.buf), stored: b.live.count()}
}

// at returns a copy of the record at a place in a block.
func (p *pool[T, P]) at(b *block[T], i int, tag uint64) T {
	if b.open != nil {
		return b.open[i]
	}
	var places bitmap
	rest, err := decodePlaces(b.packed, &places)
	if err != nil {
		panic(err) //nolint:forbidigo // these bytes were packed here, or checked by Restore
	}
	cols, n, rank := p.columns(), places.count(), places.rank(i)
	for k := range P(nil).width() {
		s := beginSteps(rest, n)
		cols[k][0] = s.skip(rank)
		rest = s.end()
	}
	var zero T
	p.one = zero // get may leave fields alone that are not set
	P(&p.one).get(cols, 0, b.id<<blockBits|uint64(i), tag)
	return p.one
}

// load returns the records of a packed block in an open one, which belongs to the pool.
func (p *pool[T, P]) load(b *block[T], tag uint64) *block[T] {
	if p.scratch == nil {
		p.scratch = newBlock[T](p.gen)
	}
	p.unpack(b, p.scratch, tag)
	return p.scratch
}

// codec packs and unpacks blocks.
type codec[T any, P record[T]] struct {
	cols *columns // nil until needed, because most queues are short
}

// columns returns memory for the columns of a block.
func (c *codec[T, P]) columns() *columns {
	if c.cols == nil {
		c.cols = new(columns)
	}
	return c.cols
}

// appendBlock appends the stored form of an open block's records.
func (c *codec[T, P]) appendBlock(b []byte, from *block[T]) []byte {
	cols, n := c.columns(), 0
	for i := from.live.next(0); i < blockLen; i = from.live.next(i + 1) {
		P(&from.open[i]).put(cols, n)
		n++
	}
	b = appendPlaces(b, &from.live)
	for i := range P(nil).width() {
		b = appendColumn(b, cols[i][:n])
	}
	return b
}

// decodeBlock decodes stored records into an open block, and marks their places. It returns the
// remaining bytes.
func (c *codec[T, P]) decodeBlock(b []byte, to *block[T], tag uint64) (rest []byte, err error) {
	if b, err = decodePlaces(b, &to.live); err != nil {
		return nil, err
	}
	cols, n := c.columns(), to.live.count()
	for i := range P(nil).width() {
		if b, err = decodeColumn(b, cols[i][:n]); err != nil {
			return nil, err
		}
	}
	n = 0
	for i := to.live.next(0); i < blockLen; i = to.live.next(i + 1) {
		P(&to.open[i]).get(cols, n, to.id<<blockBits|uint64(i), tag)
		n++
	}
	return b, nil
}

// unpack fills an open block with the records of a packed one. Those that have left are included,
// but not marked.
func (c *codec[T, P]) unpack(from, to *block[T], tag uint64) {
	to.id = from.id
	if _, err := c.decodeBlock(from.packed, to, tag); err != nil {
		panic(err) //nolint:forbidigo // these bytes were packed here, or checked by Restore
	}
	to.live = from.live
}

// record is what a deque holds: a value with an ascending key. Its other fields are written to
// columns and read from them; tag is the deque's tag.
type record[T any] interface {
	*T
	width() int
	put(c *columns, i int)
	get(c *columns, i int, key, tag uint64)
	valid() bool // after get of columns that may hold anything
}

// eachPacked calls f with the records of packed blocks.
func eachPacked[T any, P record[T]](blocks []*block[T], tag uint64, f func(P)) {
	if len(blocks) == 0 {
		return
	}
	var c codec[T, P]
	open := newBlock[T](0)
	for _, b := range blocks {
		c.unpack(b, open, tag)
		for i := open.live.next(0); i < blockLen; i = open.live.next(i + 1) {
			f(&open.open[i])
		}
	}
}
