package wal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/wal/vfs"
)

// Open opens, or creates, the log of a directory and recovers what it holds. It reads the
// footers of sealed segments and scans the last one if it was not closed. A record that
// was torn by a crash ends the last segment; any other damage is a CorruptError. Groups
// of which something is missing are reported by Lost.
func Open(dir vfs.Dir, c Config) (*Log, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	lock, err := dir.Lock(lockName)
	if err != nil {
		return nil, fmt.Errorf("wal: %w", err)
	}
	l := &Log{
		c: c.withDefaults(), dir: dir, lock: lock,
		stop: make(chan struct{}), kick: make(chan struct{}, 1),
		groups: map[id.GroupID]*GroupLog{}, deleted: map[id.GroupID]loc{}, bySeq: map[uint32]*segment{}, nextSeq: 1,
	}
	l.work.L, l.space.L, l.rolling.L = &l.mu, &l.mu, &l.mu
	l.cur = l.newBatch()
	if err := l.recoverAll(); err != nil {
		for _, s := range l.segs {
			err = errors.Join(err, s.file.Close())
		}
		return nil, errors.Join(err, lock.Close())
	}
	l.checkSpace()
	l.workers.Go(l.write)
	l.workers.Go(l.roll)
	l.workers.Go(l.housekeep)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.judge()
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
		case name == newName || strings.HasPrefix(name, sparePrefix):
			// A spare's number may be given out again, so it is of no use any more.
			if err := l.dir.Remove(name); err != nil {
				return fmt.Errorf("wal: %w", err)
			}
		}
	}
	if len(seqs) == 0 {
		var b [8]byte
		if _, err := rand.Read(b[:]); err != nil {
			return fmt.Errorf("wal: %w", err)
		}
		l.secret = binary.LittleEndian.Uint64(b[:])
		return nil
	}
	l.c.OnOpen(0, len(seqs))
	for i, seq := range seqs {
		s := &segment{seq: seq, sealed: true, closed: true}
		l.segs = append(l.segs, s)
		l.bySeq[seq] = s
		if s.file, err = l.dir.Open(segmentName(seq)); err != nil {
			l.segs = l.segs[:i]
			return fmt.Errorf("wal: %w", err)
		}
		if err := l.recoverSegment(s, seqs[i+1:]); err != nil {
			return err
		}
		l.c.OnOpen(i+1, len(seqs))
	}
	last := l.segs[len(seqs)-1]
	l.nextSeq, l.before = last.seq+1, uint32(last.end)
	return nil
}

func (l *Log) corrupt(s *segment, at int64, reason string) error {
	return &CorruptError{
		Segment: filepath.Join(l.dir.Path(), segmentName(s.seq)), Offset: at, Reason: reason, Remedy: remedyNode,
	}
}

// recoverSegment reads one segment; those behind it follow.
func (l *Log) recoverSegment(s *segment, behind []uint32) error {
	var err error
	if s.size, err = s.file.Size(); err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	secret, err := readHeader(s.file, s.seq)
	if err != nil {
		return l.corrupt(s, 0, err.Error())
	}
	l.secret, s.salt = secret, saltOf(s.seq, secret)
	footer, end, err := sealedFooter(s.file, s.size, s.seq, s.salt)
	if err != nil {
		return fmt.Errorf("wal: %w", err)
	}
	if footer == nil {
		return l.recoverUnsealed(s, behind)
	}
	s.end = end
	err = parseItems(footer, func(it item) error {
		if it.at+it.size > end {
			return l.corrupt(s, end, "the footer names more records than there are")
		}
		return l.fold(s, &it)
	})
	if errors.Is(err, errMalformed) {
		return l.corrupt(s, end, "footer: "+err.Error())
	}
	return err
}

// recoverUnsealed scans a segment without footer and seals it.
func (l *Log) recoverUnsealed(s *segment, behind []uint32) error {
	var footer []byte
	end, sealed, err := scanRecords(s.file, s.size, s.salt, func(at int64, r *record) error {
		footer = appendItem(footer, r)
		return l.fold(s, &item{record: *r, at: at, size: int64(r.size())})
	})
	if err != nil {
		return fmt.Errorf("wal: read %s: %w", segmentName(s.seq), err)
	}
	s.end = end
	if !sealed {
		if err := l.checkEnd(s, behind); err != nil {
			return err
		}
	}
	// What a torn write has left behind the seal is cut off and never looked at again.
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("wal: sync %s: %w", segmentName(s.seq), err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seal(s, end, footer)
}

// checkEnd checks that the records of a segment without footer end where they should: where
// the next segment says, or, if that has none yet, where a write was torn.
func (l *Log) checkEnd(s *segment, behind []uint32) error {
	if len(behind) > 0 {
		end, said, err := l.endBefore(behind[0])
		switch {
		case err != nil:
			return err
		case said && end == s.end:
			return nil
		case said || len(behind) > 1:
			return l.corrupt(s, s.end, "the footer is damaged and a record too")
		}
	}
	damaged, err := provesDamage(s.file, s.size, s.salt, s.end)
	if err != nil {
		return fmt.Errorf("wal: read %s: %w", segmentName(s.seq), err)
	}
	if damaged {
		return l.corrupt(s, s.end, "a record is damaged that was durable before a later one was written")
	}
	if s.end > headerBytes {
		l.c.Logger.Info("the log was not closed; the last segment ends here", "segment", segmentName(s.seq), "offset", s.end, "size", s.size)
	}
	return nil
}

// endBefore returns where the records of the segment before a segment end, as the first record
// of that one says, if there is one.
func (l *Log) endBefore(seq uint32) (end int64, said bool, err error) {
	f, err := l.dir.Open(segmentName(seq))
	if err != nil {
		return 0, false, fmt.Errorf("wal: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return 0, false, fmt.Errorf("wal: %w", err)
	}
	one := errors.New("one is enough")
	_, _, err = scanRecords(f, size, saltOf(seq, l.secret), func(_ int64, r *record) error {
		end, said = int64(r.synced), true
		return one
	})
	if err != nil && !errors.Is(err, one) {
		return 0, false, fmt.Errorf("wal: read %s: %w", segmentName(seq), err)
	}
	return end, said, nil
}

// fold takes a record into account, in the order of the stream.
func (l *Log) fold(s *segment, it *item) error {
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
			return l.corrupt(s, it.at, "state of group "+it.group.String()+": "+err.Error())
		}
		l.drop(g.at)
		g.at, g.st = at, st
		g.ix.remove(span{st.next, ^uint64(0)}, always, l.drop)
	case KindKeep:
		k, err := parseKeep(&it.record)
		if err != nil {
			return l.corrupt(s, it.at, "keep record of group "+it.group.String()+": "+err.Error())
		}
		l.foldKeep(g, &k, at)
	case KindDeleted, KindFooter:
		return l.corrupt(s, it.at, "a "+it.kind.String()+" where none belongs")
	}
	return nil
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
	for group, g := range l.groups {
		if g.st.lost {
			g.lost = fmt.Errorf("%w: %s: it was found so earlier: %s", ErrLost, group, remedyGroup)
			continue
		}
		if !g.exists() {
			g.missing("its state is missing")
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
			g.missing(fmt.Sprintf("entry %d of its log %d..%d is missing", next, g.st.first, g.st.next-1))
		}
	}
}

// missing marks a group as lost because of records that are not there.
func (g *GroupLog) missing(reason string) {
	g.lost = fmt.Errorf("%w: %s: %s: a segment of %s is gone: %s", ErrLost, g.id, reason, g.l.dir.Path(), remedyGroup)
	g.l.c.Logger.Error("a group is lost on this node", "group", g.id.String(), "error", g.lost)
	g.st.lost = true
	g.putState(CauseLost)
	g.l.work.Signal()
}
