package wal

import "iter"

// batch is what one write and one sync make durable.
type batch struct {
	data   []byte
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
	lo, hi int    // in the batch's data
	seal   bool   // the segment ends here
	footer []byte // if seal
}

// newBatch takes what gathers until the writer is free. It uses a buffer again if there is one; l.mu is
// held.
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
