package wal

import (
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
