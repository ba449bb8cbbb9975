package wal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/wal/vfs"
)

// Open opens or creates the log of a directory and recovers its records. It reads the footers of
// sealed segments, and scans the last segment if the log was not closed. A record that was torn by
// a crash ends the last segment. Any other damage affects the groups whose records it may have hit:
// Lost returns them, and Gap reports if some are unknown.
func Open(dir vfs.Dir, c Config) (*Log, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	lock, err := dir.Lock(lockName)
	if err != nil {
		return nil, fmt.Errorf("wal: %w", err)
	}
	if c.SegmentBytes == 0 {
		if _, total, err := dir.Space(); err == nil {
			c.SegmentBytes = int64(min(DefaultSegmentBytes, max(minDefaultSegmentBytes, total/defaultSegmentShare)))
		}
	}
	l := &Log{
		c: c.withDefaults(), dir: dir, lock: lock, opened: time.Now(),
		stop: make(chan struct{}), endWaits: make(chan struct{}), kick: make(chan struct{}, 1),
		groups: map[id.GroupID]*GroupLog{}, deleted: map[id.GroupID]loc{}, bySeq: map[uint32]*segment{}, nextSeq: 1,
	}
	l.work.L, l.space.L, l.rolling.L = &l.mu, &l.mu, &l.mu
	l.cur = l.newBatch()
	l.tail.limit = l.c.TailBytes
	l.idle = time.AfterFunc(l.c.markAfter, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.quiet = true
		l.work.Signal()
	})
	if err := l.runSteps(l.recoverReserve, l.recoverAll, l.recoverInventory); err != nil {
		for _, s := range l.segs {
			err = errors.Join(err, s.file.Close())
		}
		l.idle.Stop()
		return nil, errors.Join(err, lock.Close())
	}
	l.checkMark()
	l.checkSpace(0)
	l.files, l.rollFiles = patient{dir, l, false}, patient{dir, l, true}
	l.mu.Lock()
	l.judge() // first: no segment is freed before what this start has found is durable
	l.mu.Unlock()
	l.workers.Go(l.write)
	l.workers.Go(l.roll)
	l.workers.Go(l.housekeep)
	l.wake()
	return l, nil
}

// recoverAll reads the directory.
func (l *Log) recoverAll() error {
	names, err := l.dir.List()
	if err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	var seqs []uint32
	for _, name := range names {
		seq, ok := parseName(name)
		switch {
		case ok:
			seqs = append(seqs, seq) // names sort as numbers do
		case strings.HasPrefix(name, unreadPrefix):
			l.foundAside(name)
		case name == inventoryName:
		case name == newName || strings.HasPrefix(name, sparePrefix):
			// A spare's number may be given out again, so it can no longer be used.
			if err := l.dir.Remove(name); err != nil {
				return fmt.Errorf("wal: %w", err)
			}
		}
	}
	if len(seqs) == 0 {
		return l.newSecret()
	}
	l.c.OnOpen(0, len(seqs))
	for i, seq := range seqs {
		if err := l.recoverNext(seq, seqs[i+1:]); err != nil {
			return err
		}
		l.c.OnOpen(i+1, len(seqs))
	}
	l.nextSeq = seqs[len(seqs)-1] + 1
	if len(l.segs) == 0 { // nothing of any can be read
		return l.newSecret()
	}
	l.before = uint32(l.segs[len(l.segs)-1].end)
	for _, s := range slices.Backward(l.segs) {
		if s.end > headerBytes { // a mark must not name a segment without records, which is freed soon
			l.synced = loc{seg: s.seq, off: uint32(s.end)}
			break
		}
	}
	return nil
}

// newSecret gives the log a secret that nobody knows.
func (l *Log) newSecret() error {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	l.secret = binary.LittleEndian.Uint64(b[:])
	return nil
}

// recoverNext opens a segment and takes it into account; those behind it follow.
func (l *Log) recoverNext(seq uint32, behind []uint32) error {
	s := &segment{seq: seq, sealed: true, closed: true}
	var err error
	if s.file, err = l.dir.Open(segmentName(seq)); err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	l.segs = append(l.segs, s)
	l.bySeq[seq] = s
	if s.size, err = s.file.Size(); err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	readable, err := l.openSegment(s)
	if err != nil {
		return err
	}
	if !readable {
		l.segs = l.segs[:len(l.segs)-1]
		delete(l.bySeq, seq)
		return l.setAside(s)
	}
	return l.recoverSegment(s, behind)
}

// recoverSegment reads one segment.
func (l *Log) recoverSegment(s *segment, behind []uint32) error {
	footer, end, err := sealedFooter(s.file, s.size, s.seq, s.salt)
	if err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	if footer == nil {
		return l.recoverUnsealed(s, behind)
	}
	s.end = end
	if err := parseItems(footer, func(it item) error { return l.fold(s, &it) }); err != nil {
		return fmt.Errorf("wal: %s: %w: its footer is intact, but %w", filepath.Join(l.dir.Path(), segmentName(s.seq)), errVersion, err)
	}
	return nil
}

// recoverUnsealed scans a segment without footer and seals it.
func (l *Log) recoverUnsealed(s *segment, behind []uint32) error {
	expected, err := l.expectedEnd(s, behind)
	if err != nil {
		return err
	}
	limit := s.size
	if expected > 0 {
		limit = min(limit, expected)
	}
	var footer []byte
	end, sealed, err := scanRecords(s.file, headerBytes, limit, s.salt, func(at int64, r *record) error {
		footer = appendItem(footer, r)
		return l.fold(s, &item{record: *r, at: at, size: int64(r.size())})
	})
	if err != nil {
		return fmt.Errorf("wal: read %s: %w", segmentName(s.seq), err)
	}
	if !sealed && end != expected {
		v, err := lookBehind(s.file, end, s.size, expected, s.salt)
		if err != nil {
			return fmt.Errorf("wal: read %s: %w", segmentName(s.seq), err)
		}
		if footer, err = l.salvage(s, &v, footer); err != nil {
			return err
		}
		if end = v.end; len(v.holes) == 0 && end > headerBytes {
			l.c.Logger.Info("the log was not closed; the last segment ends here", "segment", segmentName(s.seq), "offset", end, "size", s.size)
		}
	}
	s.end = end
	// What a torn write has left behind the seal is cut off and never read again.
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("wal: sync %s: %w", segmentName(s.seq), err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seal(s, end, footer)
}

// expectedEnd returns where the records of a segment without footer end: where its trailer or
// the next segment says. 0: nobody does, as a write may have been torn.
func (l *Log) expectedEnd(s *segment, behind []uint32) (int64, error) {
	end, err := trailerOf(s.file, s.size, s.seq, s.salt)
	if err != nil {
		return 0, fmt.Errorf("wal: read %s: %w", segmentName(s.seq), err)
	}
	if end > 0 || len(behind) == 0 {
		return end, nil
	}
	return l.endBefore(behind[0])
}

// endBefore returns where the records of the segment before a segment end, according to the first record of the
// latter, or 0 if it does not say.
func (l *Log) endBefore(seq uint32) (end int64, err error) {
	f, err := l.dir.Open(segmentName(seq))
	if err != nil {
		return 0, fmt.Errorf("wal: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return 0, fmt.Errorf("wal: %w", err)
	}
	secret, err := readHeader(f, seq)
	if err != nil {
		secret = l.secret
	}
	one := errors.New("one is enough")
	_, _, err = scanRecords(f, headerBytes, size, saltOf(seq, secret), func(_ int64, r *record) error {
		end = int64(r.synced)
		return one
	})
	if err != nil && !errors.Is(err, one) {
		return 0, fmt.Errorf("wal: read %s: %w", segmentName(seq), err)
	}
	return end, nil
}

// fold takes a record into account, in the order of the stream.
func (l *Log) fold(s *segment, it *item) error {
	if it.group == listGroup {
		l.foldGap(s, it)
		return nil
	}
	at := loc{s.seq, uint32(it.at), uint32(it.size)}
	s.live += it.size
	if it.kind == KindDeleted {
		l.forget(l.groups[it.group])
		l.drop(l.deleted[it.group])
		l.deleted[it.group] = at
		return nil
	}
	g := l.group(it.group)
	switch it.kind {
	case KindEntry:
		l.drop(g.ix.set(it.index, at))
		g.st.next = max(g.st.next, it.index+1)
	case KindRetained:
		l.drop(g.rt.set(it.index, at))
	case KindState:
		st, err := parseState(&it.record)
		if err != nil {
			g.spoilt(s, it, err)
			return nil
		}
		l.drop(g.at)
		g.at, g.st = at, st
		g.ix.remove(span{st.next, ^uint64(0)}, always, l.drop)
	case KindKeep:
		k, err := parseKeep(&it.record)
		if err != nil {
			g.spoilt(s, it, err)
			return nil
		}
		l.foldKeep(g, &k, at)
	case KindDeleted, KindFooter:
	}
	return nil
}

// spoilt records that a record of the group has impossible contents; the record is no longer live.
func (g *GroupLog) spoilt(s *segment, it *item, err error) {
	s.live -= it.size
	g.hurt = fmt.Sprintf("a %s at offset %d of segment %s: %v", it.kind, it.at, segmentName(s.seq), err)
}

// foldKeep kills what a keep record does not name. Records of one generation do not
// overlap, so one that covers another replaces it.
func (l *Log) foldKeep(g *GroupLog, k *keep, at loc) {
	if buried, was := l.deleted[g.id]; was && g.exists() {
		l.drop(buried) // see GroupLog.bury
		delete(l.deleted, g.id)
	}
	c := cursor{k.left}
	g.ix.remove(span{k.lo, max(k.lo, min(k.hi, k.bound))}, func(i uint64) bool { return !c.has(i) }, l.drop)
	c = cursor{k.brought}
	g.rt.remove(k.span, func(i uint64) bool { return !c.has(i) }, l.drop)
	kept := g.keeps[:0]
	for _, o := range g.keeps {
		if o.lo >= k.lo && o.hi <= k.hi {
			l.drop(o.at)
		} else {
			kept = append(kept, o)
		}
	}
	g.keeps = append(kept, keepRecord{at: at, epoch: g.epoch, span: k.span})
}

// judge finds the groups of which something is missing. The caller holds mu.
func (l *Log) judge() {
	switch {
	case l.found != nil:
		l.gap, l.unsure = l.found, true
	case l.unsure:
		l.gap = fmt.Errorf("%w: a record is damaged in %s", ErrLost, l.dir.Path())
	}
	for group, g := range l.groups {
		switch {
		case g.st.lost:
			g.lost = fmt.Errorf("%w: %s: it was found so earlier: %s", ErrLost, group, remedyGroup)
			continue
		case l.unsure:
			g.missing("it may have lost an entry or a vote: " + l.gap.Error())
			continue
		case g.hurt != "":
			g.missing(g.hurt)
			continue
		case !g.exists():
			g.missing("its state is missing: a segment is gone")
			continue
		}
		g.bury() // if a crash has cut that off
		next := g.st.first
		g.ix.all(span{g.st.first, g.st.next}, func(i uint64, _ loc) bool {
			if i != next {
				return false
			}
			next++
			return true
		})
		if next != g.st.next {
			g.missing(fmt.Sprintf("entry %d of its log %d..%d is missing: a segment is gone", next, g.st.first, g.st.next-1))
		}
	}
	if l.unsure { // behind what the groups were notified
		l.unsure, l.found = false, nil
		l.putGap()
		l.work.Signal()
	}
}

// missing marks a group as lost because of records that are not there.
func (g *GroupLog) missing(reason string) {
	g.lost = fmt.Errorf("%w: %s in %s: %s: %s", ErrLost, g.id, g.l.dir.Path(), reason, remedyGroup)
	g.l.c.Logger.Error("a group is lost on this node", "group", g.id.String(), "error", g.lost)
	g.st.lost = true
	g.putState(CauseLost)
	g.l.work.Signal()
}
