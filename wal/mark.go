package wal

import (
	"errors"
	"fmt"
)

// Mark is a place up to which a log was durable at some time. With a Mark stored outside the log, a
// caller can distinguish a log that has lost durable records from one whose end a crash has torn:
// records below a mark were durable.
type Mark struct {
	Log     uint64 // the secret of its segments, which identifies the log
	Segment uint32
	Offset  uint32 // where records end in the segment
}

// Mark returns the place up to which the log is durable now; the zero Mark if the log is empty.
func (l *Log) Mark() Mark {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.segs) == 0 || l.synced.seg == 0 {
		return Mark{}
	}
	return Mark{Log: l.secret, Segment: l.synced.seg, Offset: l.synced.off}
}

// checkMark treats what is missing below Config.Mark as a gap: nobody knows whose records it had. No mark is returned
// before the gap is durable.
func (l *Log) checkMark() {
	if short := l.missingBelow(l.c.Mark); short != "" {
		l.synced = loc{}
		l.noteGap(errors.New(short))
	}
}

// missingBelow finds out what is missing of the segments that were recovered. The segment that a
// mark names may be gone because it was emptied since: then there are newer ones with records.
func (l *Log) missingBelow(m Mark) string {
	switch s := l.bySeq[m.Segment]; {
	case m == Mark{}:
		return ""
	case len(l.segs) == 0:
		return fmt.Sprintf("%s has no segments, and had %s", l.dir.Path(), segmentName(m.Segment))
	case l.secret != m.Log:
		return fmt.Sprintf("%s holds another log than it held", l.dir.Path())
	case s != nil && s.end < int64(m.Offset):
		return fmt.Sprintf("segment %s of %s ends at %d, and was durable up to %d", segmentName(s.seq), l.dir.Path(), s.end, m.Offset)
	case s != nil:
		return ""
	}
	for _, s := range l.segs {
		if s.seq > m.Segment && s.end > headerBytes {
			return ""
		}
	}
	return fmt.Sprintf("segment %s of %s is gone, and so is all behind it", segmentName(m.Segment), l.dir.Path())
}
