package wal

import (
	"bytes"
	"fmt"

	"github.com/hashicorp/raft"
)

// GetLog implements raft.LogStore. A recent entry comes from memory.
func (g *GroupLog) GetLog(index uint64, out *raft.Log) error {
	l := g.l
	l.mu.Lock()
	if err := g.usable(); err != nil {
		l.mu.Unlock()
		return err
	}
	if index < g.st.first || index >= g.st.next {
		l.mu.Unlock()
		return raft.ErrLogNotFound
	}
	if g.tail.get(index, out) {
		l.mu.Unlock()
		return nil
	}
	return g.read(index, g.ix.get(index), out)
}

// Entry reads an entry that came with a snapshot, that is in the log, or that the log has dropped
// but Retain has not. It returns raft.ErrLogNotFound if the entry is gone.
func (g *GroupLog) Entry(index uint64, out *raft.Log) error {
	l := g.l
	l.mu.Lock()
	if err := g.usable(); err != nil {
		l.mu.Unlock()
		return err
	}
	// What a snapshot brought is committed. What the log has there may be older and another
	// leader's, until raft has dropped it, and after a power cut it may be back.
	at := g.rt.get(index)
	if at.size == 0 {
		if g.tail.get(index, out) {
			l.mu.Unlock()
			return nil
		}
		at = g.ix.get(index)
	}
	return g.read(index, at, out)
}

// Explain describes the log's records of an entry, for errors about a missing one.
func (g *GroupLog) Explain(index uint64) string {
	g.l.mu.Lock()
	defer g.l.mu.Unlock()
	place := func(at loc) string {
		if at.size == 0 {
			return "nothing"
		}
		return fmt.Sprintf("%d bytes at %d of segment %d", at.size, at.off, at.seg)
	}
	return fmt.Sprintf("the log is %d to %d; of entry %d the log has %s, snapshots have brought %s",
		g.st.first, g.st.next-1, index, place(g.ix.get(index)), place(g.rt.get(index)))
}

// read reads the record at a place. It is called with mu held and lets it go.
func (g *GroupLog) read(index uint64, at loc, out *raft.Log) error {
	l := g.l
	if at.size == 0 {
		l.mu.Unlock()
		return raft.ErrLogNotFound
	}
	s := l.bySeq[at.seg]
	buf := make([]byte, at.size)
	if l.readPending(s, at, buf) {
		l.mu.Unlock()
		r, _ := parseRecord(buf, s.salt) // it was made in this memory
		r.entry(out)
		return nil
	}
	s.refs++
	file, salt := s.file, s.salt
	l.mu.Unlock()
	_, err := file.ReadAt(buf, int64(at.off))
	r, ok := record{}, false
	if err == nil { // without mu: the checksum of a large record takes as long as some appends
		r, ok = parseRecord(buf, salt)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.release(s)
	if err := l.usable(); err != nil {
		return err
	}
	if err != nil {
		return g.lose(s, at, fmt.Sprintf("entry %d cannot be read: %v", index, err))
	}
	if !ok || r.group != g.id || r.index != index {
		return g.lose(s, at, fmt.Sprintf("entry %d of group %s has a wrong checksum", index, g.id))
	}
	r.entry(out)
	return nil
}

// Bounds of Ahead: of what it reads at once, of the other records between two entries that it reads along, in bytes,
// and of the indexes that it examines.
const (
	readAheadBytes   = 64 << 10
	readAheadGap     = 1 << 10
	readAheadIndexes = 1 << 10
)

// placed is an entry and its place.
type placed struct {
	index uint64
	at    loc
}

// Ahead reads entries after one, up to last, with a single read: those that lie behind each other in a file, close
// together. It is for readers in the order of the log, for whom Entry needs a read each. Entries that are in memory end
// it, those that a snapshot has brought, and damaged ones, which Entry reports. The caller must not ask for entries that
// are not committed.
func (g *GroupLog) Ahead(after, last uint64) []raft.Log {
	l := g.l
	l.mu.Lock()
	places := g.together(after+1, last)
	if g.usable() != nil || len(places) == 0 {
		l.mu.Unlock()
		return nil
	}
	s := l.bySeq[places[0].at.seg]
	s.refs++
	file, salt := s.file, s.salt
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.release(s)
	}()
	begin, end := places[0].at.off, places[len(places)-1].at.end()
	buf := make([]byte, end-begin)
	n, _ := file.ReadAt(buf, int64(begin)) // an error comes behind the last byte that can be read
	entries := make([]raft.Log, 0, len(places))
	for _, p := range places {
		if int(p.at.end()-begin) > n {
			break
		}
		r, ok := parseRecord(buf[p.at.off-begin:p.at.end()-begin], salt)
		if !ok || r.group != g.id || r.index != p.index {
			break
		}
		var e raft.Log
		r.entry(&e)
		e.Data = bytes.Clone(e.Data) // who keeps one does not keep what was read along
		entries = append(entries, e)
	}
	return entries
}

// together returns the places of the entries that Ahead reads. The caller holds mu.
func (g *GroupLog) together(from, last uint64) (places []placed) {
	window := span{from, min(last+1, from+readAheadIndexes)}
	if len(g.tail.logs) > 0 {
		window.hi = min(window.hi, g.tail.logs[0].Index)
	}
	g.rt.all(window, func(i uint64, _ loc) bool { // see Entry
		window.hi = i
		return false
	})
	g.ix.all(window, func(i uint64, at loc) bool {
		if !g.l.onDisk(at) {
			return false
		}
		begin := at.off
		if n := len(places); n > 0 {
			before := places[n-1].at
			if at.seg != before.seg || at.off < before.end() || at.off-before.end() > readAheadGap {
				return false
			}
			begin = places[0].at.off
		}
		if at.end()-begin > readAheadBytes {
			return false
		}
		places = append(places, placed{i, at})
		return true
	})
	return places
}

// onDisk reports whether a record is known to be durable. The caller holds mu.
func (l *Log) onDisk(at loc) bool {
	return at.seg < l.synced.seg || at.seg == l.synced.seg && at.end() <= l.synced.off
}

// release ends a reader's use of a segment.
func (l *Log) release(s *segment) {
	if s.refs--; s.refs == 0 && s.live == 0 {
		l.wake()
	}
}

// readPending copies a record that is not written yet; false: it is written.
func (l *Log) readPending(s *segment, at loc, to []byte) bool {
	for b := range l.waiting() {
		for i := range b.chunks {
			c := &b.chunks[i]
			if from := int64(at.off) - c.off; c.seg == s && from >= 0 && from < int64(c.size) {
				b.read(c, int(from), to)
				return true
			}
		}
	}
	return false
}

// lose marks the group as lost, for good. The caller holds mu.
func (g *GroupLog) lose(s *segment, at loc, reason string) error {
	l := g.l
	if g.lost != nil {
		return g.lost
	}
	g.lost = fmt.Errorf("%w: %s: %w", ErrLost, g.id, &CorruptError{
		Segment: l.dir.Path() + "/" + segmentName(s.seq), Offset: int64(at.off), Reason: reason, Remedy: remedyGroup,
	})
	l.c.Logger.Error("a group is lost on this node", "group", g.id.String(), "error", g.lost)
	if l.usable() == nil && g.exists() {
		g.st.lost = true
		g.putState(CauseLost)
		l.work.Signal()
	}
	if lost, f := g.lost, l.c.OnLost; f != nil {
		go f(g.id, lost) // the caller holds mu
	}
	return g.lost
}

// Newest returns how many of the newest entries up to an index fit into most bytes, and their size
// in the log.
func (g *GroupLog) Newest(upTo uint64, most int64) (entries uint64, bytes int64) {
	g.l.mu.Lock()
	defer g.l.mu.Unlock()
	for i := min(upTo, g.st.next-1); i >= g.st.first; i-- {
		size := int64(g.ix.get(i).size)
		if bytes+size > most {
			break
		}
		entries, bytes = entries+1, bytes+size
	}
	return entries, bytes
}
