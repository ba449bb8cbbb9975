package wal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/quorate/quorate/id"
)

// Damage is confined to the groups that it may have hit. In a segment with a footer it is
// found when an entry is read. In a segment without a footer, recovery continues behind the damaged place. If a list
// shows what was there, the damage costs no more than with a footer. If not, any group may have lost an entry or a
// vote, and all are lost on this node. Gap stands for the groups that recovery cannot even name, because all of their
// records may have been there.

// hole is a place without an intact record, with records behind it.
type hole struct{ at, end int64 }

// survey is what lies behind the first damaged place of a segment.
type survey struct {
	holes   []hole
	known   map[int64]item // by offset: what lists say
	durable int64          // all before it was durable
	end     int64          // of the records
	footer  bool           // follows them
}

// lookBehind continues behind a place without an intact record. expected is where the records end, 0 if that is
// unknown.
func lookBehind(f io.ReaderAt, at, size, expected int64, salt uint32) (survey, error) {
	v := survey{known: map[int64]item{}, durable: expected, end: at}
	limit := size
	if expected > 0 {
		limit = min(size, expected) // the file may have been cut short
	}
	for v.end < limit && !v.footer {
		next, found, err := nextRecord(f, v.end, limit, salt)
		if err != nil {
			return v, err
		}
		if !found {
			break
		}
		v.holes = append(v.holes, hole{v.end, next})
		v.end, v.footer, err = scanRecords(f, next, limit, salt, func(_ int64, r *record) error {
			v.durable = max(v.durable, int64(r.synced))
			if r.isList() {
				v.read(r)
			}
			return nil
		})
		if err != nil {
			return v, err
		}
	}
	if v.footer {
		v.durable = max(v.durable, v.end) // or there would be none
	}
	if v.end < v.durable {
		v.holes = append(v.holes, hole{v.end, v.durable})
		v.end = v.durable
	}
	for i, h := range v.holes {
		if h.at >= v.durable { // a torn write, with some of its sectors
			v.holes, v.end, v.footer = v.holes[:i], h.at, false
			break
		}
	}
	return v, nil
}

// read takes the lines of a list.
func (v *survey) read(r *record) {
	err := parseLines(append([]byte{}, r.data...), int64(r.term), func(it item) error {
		v.known[it.at] = it
		return nil
	})
	if err != nil {
		return // what it does not say is not known
	}
}

// lost returns the records of a hole, false if they are not known.
func (v *survey) lost(h hole) (items []item, known bool) {
	for at := h.at; at < h.end; {
		it, ok := v.known[at]
		if !ok {
			return nil, false
		}
		items = append(items, it)
		at += it.size
		known = at == h.end
	}
	return items, known
}

// salvage takes what is behind the first damaged place of a segment into account and extends
// its footer.
func (l *Log) salvage(s *segment, v *survey, footer []byte) ([]byte, error) {
	for i, h := range v.holes {
		items, known := v.lost(h)
		place := &CorruptError{Segment: filepath.Join(l.dir.Path(), segmentName(s.seq)), Offset: h.at, Reason: "a record is damaged", Remedy: remedyGroup}
		if !known {
			place.Remedy = "any group of this node may have lost an entry or a vote: each of its members is rebuilt from its peers"
			l.noteGap(place)
			footer = appendLine(footer, &record{kind: KindEntry, group: listGroup}, h.end-h.at)
		} else {
			l.c.Logger.Error("a record of the log is damaged", "error", place, "records", len(items), "group", items[0].group.String())
		}
		for n := range items {
			footer = appendLine(footer, &items[n].record, items[n].size)
			if err := l.fold(s, &items[n]); err != nil {
				return nil, err
			}
		}
		until := v.end
		if i+1 < len(v.holes) {
			until = v.holes[i+1].at
		}
		_, _, err := scanRecords(s.file, h.end, until, s.salt, func(at int64, r *record) error {
			footer = appendItem(footer, r)
			return l.fold(s, &item{record: *r, at: at, size: int64(r.size())})
		})
		if err != nil {
			return nil, fmt.Errorf("wal: read %s: %w", segmentName(s.seq), err)
		}
	}
	return footer, nil
}

// noteGap records that records of unknown groups are lost.
func (l *Log) noteGap(err error) {
	l.c.Logger.Error("the log is damaged, and it is unknown which groups have lost records", "error", err)
	if l.found == nil {
		l.found = fmt.Errorf("%w: %w", ErrLost, err)
	}
}

// Gap reports that records of unknown groups were lost, nil if none were. Then even a group without
// records may have had some. The gap lasts until EndGap.
func (l *Log) Gap() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gap
}

// EndGap ends the gap. lost are the groups without records that should have some; no other group
// has lost records. It returns when that is durable.
func (l *Log) EndGap(lost []id.GroupID) error {
	l.mu.Lock()
	if err := l.admit(); err != nil || l.gap == nil {
		l.mu.Unlock()
		return err
	}
	for _, group := range lost {
		if g := l.group(group); !g.exists() {
			g.missing(fmt.Sprintf("it may have been in what is damaged: %v", l.gap))
		}
	}
	l.mu.Unlock()
	if err := l.leaveAside(); err != nil {
		return err
	}
	if err := l.acceptMissing(); err != nil {
		return err
	}
	l.mu.Lock()
	if err := l.usable(); err != nil || l.gap == nil {
		l.mu.Unlock()
		return err
	}
	l.gap = nil
	l.putGap()
	b := l.cur
	l.mu.Unlock()
	l.work.Signal()
	<-b.done
	return b.err
}

// setAside takes an unreadable segment out of the log. Its new name marks the gap, which is not durable otherwise
// yet: a start that found neither would consider the log whole.
func (l *Log) setAside(s *segment) error {
	name := segmentName(s.seq)
	if err := errors.Join(s.file.Close(), l.dir.Rename(name, unreadPrefix+name), l.dir.SyncDir()); err != nil {
		return fmt.Errorf("wal: set %s aside: %w", name, err)
	}
	l.foundAside(unreadPrefix + name)
	return nil
}

// foundAside takes into account that a segment was set aside, at this start or since the last gap has ended.
func (l *Log) foundAside(name string) {
	l.aside = append(l.aside, name)
	l.noteGap(&CorruptError{Segment: filepath.Join(l.dir.Path(), name), Reason: "nothing of the segment can be read", Remedy: remedyGroup})
}

// leaveAside gives the segments that were set aside names under which the log ignores them; the files stay for
// examination. Before that it makes the gap durable.
func (l *Log) leaveAside() error {
	l.naming.Lock()
	defer l.naming.Unlock()
	if len(l.aside) == 0 {
		return nil
	}
	l.mu.Lock()
	err := l.usable()
	l.mu.Unlock()
	if err == nil {
		err = l.waitAll()
	}
	if err != nil {
		return err
	}
	var steps []func() error
	for _, name := range l.aside {
		steps = append(steps, func() error {
			return l.dir.Rename(name, damagedPrefix+strings.TrimPrefix(name, unreadPrefix))
		})
	}
	if err = l.runSteps(append(steps, l.files.SyncDir)...); err == nil {
		l.aside = nil
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail(fmt.Errorf("rename %d damaged segments: %w", len(l.aside), err))
	return l.err
}

// putGap writes whether there is a gap, as a state of group 0, which does not exist. The caller holds mu.
func (l *Log) putGap() {
	st := state{first: 1, next: 1, lost: l.gap != nil}
	r := st.record(listGroup, CauseLost)
	was := l.gapAt
	l.gapAt = l.put(&r)
	l.drop(was)
}

// foldGap takes a record of group 0 into account: a line about a hole that a start has found, or the record that was
// written when all groups had been notified.
func (l *Log) foldGap(s *segment, it *item) {
	switch it.kind {
	case KindEntry:
		l.unsure = true
	case KindState:
		at := loc{s.seq, uint32(it.at), uint32(it.size)}
		s.live += it.size
		l.drop(l.gapAt)
		l.gapAt, l.gap, l.unsure = at, nil, false
		if st, err := parseState(&it.record); err != nil || st.lost {
			l.gap = fmt.Errorf("%w: records of unknown groups were found damaged earlier in %s", ErrLost, l.dir.Path())
		}
	default:
	}
}

// openSegment reads a segment's header, or makes it anew if it is damaged. False if nothing
// of the file can be read.
func (l *Log) openSegment(s *segment) (readable bool, err error) {
	secret, err := readHeader(s.file, s.seq)
	if errors.Is(err, errVersion) {
		return false, fmt.Errorf("wal: %s: %w", filepath.Join(l.dir.Path(), segmentName(s.seq)), err)
	}
	if err == nil {
		l.secret, s.salt = secret, saltOf(s.seq, secret)
		return true, nil
	}
	l.c.Logger.Error("the header of a segment is damaged", "segment", segmentName(s.seq), "error", err)
	secret, err = l.guessSecret(s)
	if err != nil || secret == 0 {
		return false, err
	}
	l.secret, s.salt = secret, saltOf(s.seq, secret)
	if _, err := s.file.WriteAt(header(s.seq, secret), 0); err != nil {
		return false, fmt.Errorf("wal: write the header of %s: %w", segmentName(s.seq), err)
	}
	if err := s.file.Sync(); err != nil {
		return false, fmt.Errorf("wal: sync %s: %w", segmentName(s.seq), err)
	}
	return true, nil
}

// guessSecret returns the secret of a segment without a header: that of the header with another
// bit, one with the salt that its trailer or its first records were written with, or that of another segment. 0: not
// found.
func (l *Log) guessSecret(s *segment) (uint64, error) {
	if secret := unflip(s); secret != 0 {
		return secret, nil
	}
	salt, found, err := guessSalt(s)
	if err != nil {
		return 0, fmt.Errorf("wal: read %s: %w", segmentName(s.seq), err)
	}
	if found {
		return secretWith(s.seq, salt), nil
	}
	names, err := Segments(l.dir)
	if err != nil {
		return 0, fmt.Errorf("wal: %w", err)
	}
	for _, name := range names {
		seq, _ := parseName(name)
		f, err := l.dir.Open(name)
		if err != nil {
			return 0, fmt.Errorf("wal: %w", err)
		}
		secret, err := readHeader(f, seq)
		if closeErr := f.Close(); closeErr != nil {
			return 0, fmt.Errorf("wal: %w", closeErr)
		}
		if err == nil {
			return secret, nil
		}
	}
	return 0, nil
}

// unflip returns the secret of a header in which one bit is wrong, 0 if that is not all.
func unflip(s *segment) uint64 {
	b := make([]byte, headerBytes)
	if readFull(s.file, b, 0) != nil {
		return 0
	}
	for bit := range 8 * headerUsed {
		b[bit/8] ^= 1 << (bit % 8)
		if seq, secret, err := parseHeader(b); err == nil && seq == s.seq {
			return secret
		}
		b[bit/8] ^= 1 << (bit % 8)
	}
	return 0
}

// guessSalt returns the salt with which the end or the beginning of a segment makes sense.
func guessSalt(s *segment) (salt uint32, found bool, err error) {
	if s.size < headerBytes+HeadBytes {
		return 0, false, nil
	}
	trailer, head := make([]byte, trailerBytes), make([]byte, HeadBytes)
	if err := errors.Join(readFull(s.file, trailer, s.size-trailerBytes), readFull(s.file, head, headerBytes)); err != nil {
		return 0, false, err
	}
	salt = binary.LittleEndian.Uint32(trailer[28:]) ^ checksum(trailer[:28])
	if at, err := trailerOf(s.file, s.size, s.seq, salt); err != nil || at > 0 {
		return salt, err == nil, err
	}
	n := recordSize(head, min(s.size-headerBytes, MaxRecordBytes))
	if n == 0 {
		return 0, false, nil
	}
	first := make([]byte, n)
	if err := readFull(s.file, first, headerBytes); err != nil {
		return 0, false, err
	}
	salt = binary.LittleEndian.Uint32(first) ^ checksum(first[4:])
	// With some salt anything is a record. Two records are with the right one alone.
	records := 0
	_, footer, err := scanRecords(s.file, headerBytes, s.size, salt, func(int64, *record) error { records++; return nil })
	return salt, err == nil && (records > 1 || records == 1 && footer), err
}

// secretWith returns a secret that gives a segment its salt.
func secretWith(seq, salt uint32) uint64 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // it never fails
	low := uint64(binary.LittleEndian.Uint32(b[:]))
	return low | uint64(saltOf(seq, low)^salt)<<32
}
