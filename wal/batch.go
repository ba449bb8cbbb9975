package wal

import "iter"

// batch is what one write and one sync make durable.
type batch struct {
	data   []byte // of its records, without the data of large entries
	bytes  int    // of its records
	chunks []chunkOf
	end    Position
	done   chan struct{} // closed when it is durable or has failed
	err    error         // valid after done
	groups []*GroupLog   // those to be notified that it is durable
}

// chunkOf is the part of a batch that belongs to one segment.
type chunkOf struct {
	seg    *segment
	off    int64
	size   int     // of its records
	pieces []piece // of which they consist, in order
	seal   bool    // the segment ends here
	footer []byte  // if seal
}

// sharedBytes is how large an entry's data must be to be written without a copy (GroupLog: nobody changes it). To
// copy less costs less than one more piece.
const sharedBytes = 8 << 10

// piece is a part of a chunk's records: an entry's own data, or, where that is nil, a part of the batch's.
type piece struct {
	entry  []byte
	lo, hi int
}

// add appends a record to one of the batch's chunks. Shared data is not copied: nobody changes it, and the batch
// refers to it until it is written.
func (b *batch) add(c *chunkOf, r *record, salt uint32, shared bool) {
	lo := len(b.data)
	if b.data = r.appendHead(b.data, salt); !shared {
		b.data = append(b.data, r.data...)
	}
	if n := len(c.pieces); n > 0 && c.pieces[n-1].entry == nil {
		c.pieces[n-1].hi = len(b.data)
	} else {
		c.pieces = append(c.pieces, piece{lo: lo, hi: len(b.data)})
	}
	if shared {
		c.pieces = append(c.pieces, piece{entry: r.data})
	}
	c.size += r.size()
	b.bytes += r.size()
}

// of returns a piece's bytes.
func (b *batch) of(p *piece) []byte {
	if p.entry != nil {
		return p.entry
	}
	return b.data[p.lo:p.hi]
}

// read fills to with the bytes at an offset of a chunk.
func (b *batch) read(c *chunkOf, at int, to []byte) {
	for i := range c.pieces {
		p := b.of(&c.pieces[i])
		if at < len(p) {
			to = to[copy(to, p[at:]):]
		}
		if at = max(0, at-len(p)); len(to) == 0 {
			return
		}
	}
}

// write writes a chunk to its file. It uses the memory of parts, which it returns empty.
func (b *batch) write(c *chunkOf, parts [][]byte) ([][]byte, error) {
	for i := range c.pieces {
		parts = append(parts, b.of(&c.pieces[i]))
	}
	var err error
	if len(parts) == 1 {
		_, err = c.seg.file.WriteAt(parts[0], c.off)
	} else {
		err = c.seg.file.WritePartsAt(parts, c.off)
	}
	clear(parts)
	return parts[:0], err
}

// newBatch returns the batch that gathers records until the writer is free. It reuses a buffer if one is spare; l.mu
// is held.
func (l *Log) newBatch() *batch {
	b := &batch{done: make(chan struct{}), end: l.appended, groups: l.spareGroups}
	l.spareGroups = nil
	if n := len(l.buffers); n > 0 {
		b.data, l.buffers = l.buffers[n-1][:0], l.buffers[:n-1]
	}
	return b
}

// waiting returns the batches that are not durable, oldest first.
func (l *Log) waiting() iter.Seq[*batch] {
	return func(yield func(*batch) bool) {
		if l.inflight != nil && !yield(l.inflight) {
			return
		}
		for _, b := range l.full {
			if !yield(b) {
				return
			}
		}
		yield(l.cur)
	}
}
