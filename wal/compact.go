package wal

import (
	"fmt"
	"slices"
	"time"
)

// A segment is freed when nothing in it is live and what made it so is durable. So that
// single old records do not hold up many segments (RE-8), emptyish ones are compacted:
// their live records are appended again.
const (
	// garbageFactor: segments are compacted when all sealed ones together are larger than
	// garbageFactor/2 times the live bytes. With the head and one spare the log so stays
	// below 3 times the live bytes and two segments.
	garbageFactor = 5
	// smallSegments is how many segments there may be beyond twice the necessary number:
	// each restart leaves a short one.
	smallSegments = 8
	// carryBytes is read and appended at a time.
	carryBytes = 1 << 20
)

// housekeep is the housekeeper.
func (l *Log) housekeep() {
	var tick <-chan time.Time
	if l.c.SpaceInterval > 0 {
		t := time.NewTicker(l.c.SpaceInterval)
		defer t.Stop()
		tick = t.C
	}
	for {
		select {
		case <-l.stop:
			return
		case <-tick:
			l.checkSpace()
		case <-l.kick:
			if l.c.manual {
				continue
			}
			if err := l.tidy(); err != nil {
				return // the log has failed or is closing
			}
		}
	}
}

// tidy frees and compacts until there is nothing to do.
func (l *Log) tidy() error {
	for {
		freed, err := l.freeDead()
		if err != nil {
			return err
		}
		l.mu.Lock()
		s := l.victim()
		if err = l.usable(); err != nil {
			s = nil
		}
		l.mu.Unlock()
		if s != nil {
			err = l.carry(s)
		}
		if err != nil {
			return err
		}
		if s == nil && !freed {
			return nil
		}
	}
}

// freeDead frees one segment.
func (l *Log) freeDead() (bool, error) {
	l.mu.Lock()
	s := l.nextDead()
	keepFile := s != nil && len(l.spares) < l.c.Spares && s.size <= 2*l.c.SegmentBytes
	err := l.usable()
	if s != nil && err == nil {
		s.freeing = true
	}
	l.mu.Unlock()
	if s == nil || err != nil {
		return false, err
	}
	name := segmentName(s.seq)
	err = s.file.Close()
	switch {
	case err != nil:
	case keepFile:
		err = l.dir.Rename(name, spareName(s.seq))
	default:
		err = l.dir.Remove(name)
	}
	if err == nil {
		// Before it is known that the file is gone, no record that keeps its records dead
		// may go.
		err = l.dir.SyncDir()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.fail(fmt.Errorf("free segment %s: %w", name, err))
		return false, l.err
	}
	delete(l.bySeq, s.seq)
	l.segs = slices.DeleteFunc(l.segs, func(o *segment) bool { return o == s })
	if keepFile {
		l.spares = append(l.spares, spare{spareName(s.seq), s.size})
	}
	return true, nil
}

// nextDead returns a segment that may be freed. What made it dead must be durable first:
// a crash before that needs its records again.
func (l *Log) nextDead() *segment {
	for _, s := range l.segs {
		if s.live != 0 || !s.closed || s.freeing {
			continue
		}
		if !s.dead {
			s.dead, s.deadAt = true, l.appended
		}
		if s.deadAt > l.durable {
			if l.freeAt == 0 || s.deadAt < l.freeAt {
				l.freeAt = s.deadAt
			}
			continue
		}
		if s.refs == 0 {
			return s
		}
	}
	return nil
}

// victim returns the segment to compact, nil if there is none.
func (l *Log) victim() *segment {
	var sealed, live, total int64
	var emptiest, smallest *segment
	n := int64(0)
	for _, s := range l.segs {
		live += s.live
		total += max(s.size, s.end)
		if !s.closed || s.freeing {
			continue
		}
		sealed += s.size
		n++
		if s.stuck || s.live == 0 {
			continue
		}
		if emptiest == nil || s.live*emptiest.size < emptiest.live*s.size {
			emptiest = s
		}
		if smallest == nil || s.size < smallest.size {
			smallest = s
		}
	}
	switch {
	case emptiest == nil:
		return nil
	case 2*sealed > garbageFactor*live && 2*emptiest.live < emptiest.size:
		return emptiest
	case l.c.BudgetBytes > 0 && total > l.c.BudgetBytes && 4*emptiest.live < 3*emptiest.size:
		return emptiest
	case n > 2*(sealed/l.c.SegmentBytes)+smallSegments:
		return smallest
	default:
		return nil
	}
}

// carry appends a segment's live records again and waits until they are durable. The
// segment then is dead.
func (l *Log) carry(s *segment) error {
	footer, err := readFooter(s)
	if err != nil {
		l.mu.Lock()
		s.stuck = true
		l.mu.Unlock()
		l.c.Logger.Error("a segment cannot be compacted", "segment", segmentName(s.seq), "error", err)
		return nil
	}
	var items []item
	bytes := int64(0)
	flush := func() error {
		err := l.carryItems(s, items)
		items, bytes = items[:0], 0
		l.mu.Lock()
		end := l.appended
		l.mu.Unlock()
		if err == nil {
			// One piece at a time: groups that commit share a batch with no more than that.
			err = l.wait(end)
		}
		return err
	}
	err = parseItems(footer, func(it item) error {
		items = append(items, it)
		if bytes += it.size; bytes < carryBytes {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && s.live != 0 {
		s.stuck = true
	}
	return err
}

// carryItems carries the live ones of some neighbouring records.
func (l *Log) carryItems(s *segment, items []item) error {
	l.mu.Lock()
	var alive []item
	for i := range items {
		if l.isLive(s, &items[i]) {
			alive = append(alive, items[i])
		}
	}
	l.mu.Unlock()
	records := make([]record, len(alive))
	intact := make([]bool, len(alive))
	for i := range alive {
		it := &alive[i]
		if it.kind != KindEntry && it.kind != KindRetained {
			continue
		}
		buf := make([]byte, it.size)
		if _, err := s.file.ReadAt(buf, it.at); err == nil {
			records[i], intact[i] = parseRecord(buf, s.salt)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(alive) == 0 {
		return l.usable()
	}
	if err := l.admit(); err != nil {
		return err
	}
	for i := range alive {
		if it := &alive[i]; l.isLive(s, it) {
			l.carryOne(s, it, &records[i], intact[i])
		}
	}
	l.work.Signal()
	return nil
}

// isLive says whether a record of a segment is needed.
func (l *Log) isLive(s *segment, it *item) bool {
	at := loc{s.seq, uint32(it.at), uint32(it.size)}
	if it.kind == KindDeleted {
		return l.deleted[it.group] == at
	}
	g := l.groups[it.group]
	if g == nil {
		return false
	}
	switch it.kind {
	case KindEntry:
		return g.ix.get(it.index) == at
	case KindRetained:
		return g.rt.get(it.index) == at
	case KindState:
		return g.at == at
	case KindKeep:
		return g.keepAt(at) >= 0
	case KindDeleted, KindFooter:
	}
	return false
}

func (g *GroupLog) keepAt(at loc) int {
	return slices.IndexFunc(g.keeps, func(k keepRecord) bool { return k.at == at })
}

// carryOne appends a live record again. Records that only keep others dead need not
// survive the oldest segment: what they speak of goes with it.
func (l *Log) carryOne(s *segment, it *item, r *record, intact bool) {
	at := loc{s.seq, uint32(it.at), uint32(it.size)}
	oldest := l.segs[0] == s
	g := l.groups[it.group]
	switch it.kind {
	case KindEntry, KindRetained:
		if !intact || r.group != it.group || r.index != it.index {
			// The record stays where it is, and the segment with it.
			_ = g.lose(s, at, fmt.Sprintf("entry %d of group %s cannot be read", it.index, it.group))
			return
		}
		x := &g.ix
		if it.kind == KindRetained {
			x = &g.rt
		}
		l.carried += uint64(it.size)
		l.drop(x.set(it.index, l.put(r)))
		g.appended = l.appended
	case KindState:
		g.putState(CauseCarry)
	case KindKeep:
		k := g.keeps[g.keepAt(at)]
		g.keeps = slices.Delete(g.keeps, g.keepAt(at), g.keepAt(at)+1)
		if !oldest {
			g.putKeeps(k.span, g.st.first, k.epoch)
		}
		l.drop(at)
	case KindDeleted:
		delete(l.deleted, it.group)
		if !oldest {
			l.deleted[it.group] = l.put(&record{kind: KindDeleted, group: it.group})
		}
		l.drop(at)
	case KindFooter:
	}
}
