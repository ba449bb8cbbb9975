package wal

import (
	"fmt"
	"slices"
	"time"
)

const (
	// batchBytes ends a batch. Smaller: more syncs when the disk is the limit. Larger: the
	// first in a batch waits longer for the last.
	batchBytes = 4 << 20
	// bufferBytes is how large a buffer may be to be used again, and spareBuffers how many
	// wait for that.
	bufferBytes  = 2 * batchBytes
	spareBuffers = 3
	// aheadBytes is how far a file that grows is written with zeros ahead of the records, and
	// zeroBytes at a time. A sync behind a write within the file has neither a new size nor new
	// blocks to make durable: it takes half the time and half the processor's. A write of more
	// than aheadMost would wait longer for its zeros than it gains.
	aheadBytes = 1 << 20
	zeroBytes  = 64 << 10
	aheadMost  = 32 << 10
)

// write is the writer: whatever has gathered while it wrote is its next batch.
func (l *Log) write() {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() {
		l.written = true
		l.rolling.Broadcast()
	}()
	for {
		for len(l.full) == 0 && len(l.cur.chunks) == 0 && !l.closing && l.err == nil {
			if l.quiet {
				l.mark()
				continue // records may have come meanwhile
			}
			l.work.Wait()
		}
		b := l.next()
		if b == nil {
			return
		}
		l.inflight = b
		l.began = time.Now()
		near := l.nears(int64(b.bytes))
		l.mu.Unlock()
		if near {
			l.checkSpace(int64(b.bytes))
		}
		err := l.writeBatch(b)
		l.mu.Lock()
		l.wrote()
		if err != nil {
			l.fail(err)
			return
		}
		if l.err != nil {
			return
		}
		l.finish(b)
	}
}

// next takes the oldest batch; nil if no batch waits or the log has failed.
func (l *Log) next() *batch {
	switch {
	case l.err != nil:
		return nil
	case len(l.full) > 0:
		b := l.full[0]
		l.full = slices.Delete(l.full, 0, 1)
		return b
	case len(l.cur.chunks) > 0:
		b := l.cur
		l.cur = l.newBatch()
		return b
	default:
		return nil
	}
}

// finish makes a written batch known. It holds mu, and lets it go for the callers.
func (l *Log) finish(b *batch) {
	last := &b.chunks[len(b.chunks)-1]
	if !last.seal {
		l.synced = loc{seg: last.seg.seq, off: uint32(last.off) + uint32(last.size)}
	}
	l.durable.Store(uint64(b.end))
	l.inflight = nil
	l.pending -= int64(b.bytes)
	l.syncs++
	if cap(b.data) <= bufferBytes && len(l.buffers) < spareBuffers {
		l.buffers = append(l.buffers, b.data[:0])
	}
	b.data, b.chunks = nil, nil
	l.idle.Reset(l.c.markAfter)
	if l.freeAt != 0 && l.freeAt <= b.end {
		l.freeAt = 0
		l.wake()
	}
	l.space.Broadcast()
	close(b.done)
	if groups := b.groups; len(groups) > 0 {
		for _, g := range groups {
			if g.batch == b {
				g.batch = nil
			}
		}
		b.groups = nil
		l.mu.Unlock()
		notify(groups, b.end, nil)
		l.mu.Lock()
		clear(groups)
		l.spareGroups = groups[:0]
	}
}

// notify lets groups know that something of theirs has become durable, or never will be.
// mu must not be held.
func notify(groups []*GroupLog, durable Position, err error) {
	for _, g := range groups {
		if f := g.notify.Load(); f != nil {
			(*f)(durable, err)
		}
	}
}

// writeBatch writes and syncs without mu: files belong to the writer.
func (l *Log) writeBatch(b *batch) error {
	for i := range b.chunks {
		c := &b.chunks[i]
		s := c.seg
		if err := l.fileOf(s); err != nil {
			return err
		}
		if c.size > 0 {
			var err error
			l.parts, err = b.write(c, l.parts)
			if err == nil && !c.seal && c.size <= aheadMost {
				err = l.extend(s, c.off+int64(c.size))
			}
			if err != nil {
				return fmt.Errorf("write to %s: %w", segmentName(s.seq), err)
			}
		}
		if c.seal {
			if err := l.endSegment(c); err != nil {
				return err
			}
		}
	}
	if last := b.chunks[len(b.chunks)-1]; !last.seal {
		return l.sync(last.seg)
	}
	return nil
}

// sync makes a segment's records durable, and measures how long that takes.
func (l *Log) sync(s *segment) error {
	began := time.Now()
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", segmentName(s.seq), err)
	}
	l.syncTimes.Observe(time.Since(began), 1)
	return nil
}

// endSegment makes a segment's records durable, before there are any in the next one, and leaves
// the rest to the roller.
func (l *Log) endSegment(c *chunkOf) error {
	if c.size > 0 { // else earlier batches have synced it all
		if err := l.sync(c.seg); err != nil {
			return err
		}
	}
	return l.handOver(&ended{c.seg, c.off + int64(c.size), c.footer})
}

// extend writes zeros behind the records if they reach the end of the file. They double a
// file until they are aheadBytes, so that small logs stay small, and end where the segment
// will. A crash may leave any part of them: behind the last record nothing is read.
func (l *Log) extend(s *segment, end int64) error {
	if end < s.full {
		return nil
	}
	full := end + max(0, min(end, aheadBytes, l.c.SegmentBytes-end))
	if l.zeros == nil {
		l.zeros = make([]byte, zeroBytes)
	}
	for at := end; at < full; at += zeroBytes {
		if _, err := s.file.WriteAt(l.zeros[:min(zeroBytes, full-at)], at); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.full = full
	return nil
}

// wrote ends the measurement of what the writer wrote. The caller holds mu.
func (l *Log) wrote() {
	l.pace.observe(time.Since(l.opened), time.Since(l.began))
	l.began = time.Time{}
}

// Stalled returns how long the writer's current write has taken, 0 if nothing is being written, and the limit above
// which the disk counts as hanging: LeastStall to MostStall, depending on the slow writes of the last minute.
func (l *Log) Stalled() (age, limit time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.began.IsZero() {
		age = time.Since(l.began)
	}
	return age, l.pace.limit(time.Since(l.opened))
}
