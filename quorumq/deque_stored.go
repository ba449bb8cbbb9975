package quorumq

import "bytes"

// putBlocks writes packed blocks, each with the number of ids between it and the one before.
func putBlocks[T any](b []byte, blocks []*block[T]) []byte {
	b = putU(b, uint64(len(blocks)))
	next := uint64(0)
	for _, k := range blocks {
		b = append(putU(b, k.id-next), k.packed...)
		next = k.id + 1
	}
	return b
}

// packAll converts blocks to their stored form, in place, and drops those without records.
func packAll[T any, P record[T]](p *pool[T, P], blocks []*block[T], tag uint64) []*block[T] {
	kept := blocks[:0]
	for _, b := range blocks {
		n := b.live.count()
		if n == 0 {
			continue
		}
		if b.open != nil || n < b.stored {
			b = p.packed(b, tag)
		}
		kept = append(kept, b)
	}
	return kept
}

// restoreBlocks reads a deque, which keeps its blocks packed.
func restoreBlocks[T any, P record[T]](r *reader, d *deque[T, P], each func(P)) {
	n := r.count(3)
	if n == 0 {
		return
	}
	open := newBlock[T](d.pool.gen)
	for i := range n {
		skip := r.u()
		if i > 0 {
			open.id += skip + 1
			r.check(open.id > skip, errUnordered)
		} else {
			open.id = skip
		}
		r.check(open.id <= ^uint64(0)>>(blockBits+ordBits), errRange)
		if r.err != nil {
			return
		}
		rest, err := d.pool.decodeBlock(r.b, open, d.tag)
		if err != nil {
			r.fail(err)
			return
		}
		packed := bytes.Clone(r.b[:len(r.b)-len(rest)])
		r.b = rest
		for i := open.live.next(0); i < blockLen; i = open.live.next(i + 1) {
			m := P(&open.open[i])
			r.check(m.valid(), errRange)
			each(m)
		}
		d.pool.buf = d.pool.appendBlock(d.pool.buf[:0], open)
		r.check(bytes.Equal(d.pool.buf, packed), errForm)
		if r.err != nil {
			return
		}
		b := &block[T]{id: open.id, gen: d.pool.gen, live: open.live, packed: packed, stored: open.live.count()}
		d.blocks = append(d.blocks, b)
		d.live += b.stored
	}
	if d.live > 0 {
		d.skip()
	}
}
