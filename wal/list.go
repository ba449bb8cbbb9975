package wal

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/id"
)

// A list repeats the footer's lines of the records before it in the segment, so that a record
// that is damaged before the segment has its footer is known nevertheless: whose it was, and all of it if it is no
// entry. What is left then is what a damaged record of a sealed segment costs: an entry that cannot be read takes its
// group, and nothing else.
//
// Lists are retained entries of group 0, which does not exist, each followed by a record that marks it as retained.
// Each list has the lines from the previous list's place on, including that list's.
const (
	// listGroup is the group of records that belong to no group.
	listGroup id.GroupID = 0
	// listEvery is after how many bytes of records a list is due, and listLines after how many
	// bytes of lines. Damage behind the last list may affect all groups.
	listEvery = 64 << 10
	listLines = 8 << 10
	// markAfter is how long nothing must have been written before the writer marks the end.
	markAfter = 10 * time.Millisecond
)

// listed is how far the lists of a segment reach.
type listed struct {
	lines int   // in the footer
	end   int64 // in the segment
	due   bool  // there are records behind it
}

// listDue reports whether a list is due.
func (s *segment) listDue() bool {
	return s.listed.due && (s.end-s.listed.end >= listEvery || len(s.footer)-s.listed.lines >= listLines)
}

// list returns the records of a list at the end of the segment.
func (s *segment) list() [2]record {
	return [2]record{
		{kind: KindRetained, group: listGroup, term: uint64(s.listed.end), data: s.footer[s.listed.lines:]},
		{kind: KindDeleted, group: listGroup},
	}
}

// putList appends a list to the head. The caller holds mu.
func (l *Log) putList() {
	s := l.head
	records, next := s.list(), listed{lines: len(s.footer), end: s.end}
	for i := range records {
		l.place(&records[i])
	}
	s.listed = next
}

// mark writes a list behind the end of the head, without a sync. It stays until something is appended, which
// overwrites it. The mark shows that all before it was durable: otherwise damage in the last batch could not be
// distinguished from a torn write. The writer calls mark when it has nothing else to write; it holds mu, and releases
// it for the disk.
func (l *Log) mark() {
	l.quiet = false
	s := l.head
	if s == nil || s.file == nil || s.end == headerBytes || l.synced != (loc{seg: s.seq, off: uint32(s.end)}) || l.marked == l.synced {
		return
	}
	l.marked = l.synced
	var b []byte
	for _, r := range s.list() {
		r.synced = uint32(s.end)
		b = r.appendTo(b, s.salt)
	}
	end := s.end
	l.began = time.Now() // what comes meanwhile has to wait for it
	l.mu.Unlock()
	_, err := s.file.WriteAt(b, end)
	l.mu.Lock()
	l.wrote()
	if err != nil {
		l.fail(fmt.Errorf("write to %s: %w", segmentName(s.seq), err))
	}
	s.full = max(s.full, end+int64(len(b)))
}

// isList distinguishes a list from other records.
func (r *record) isList() bool { return r.group == listGroup && r.kind == KindRetained }
