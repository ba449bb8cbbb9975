package wal

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/phase"
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
	// carryBytes is read and appended before compaction waits for the disk.
	carryBytes = 1 << 20
	// carryItems is how many records are examined while mu is held.
	carryItems = 1024
	// victimsAtATime is how many segments are compacted between two rounds of freeing.
	victimsAtATime = 16
)

// housekeep is the housekeeper.
func (l *Log) housekeep() {
	var tick <-chan time.Time
	var next *time.Timer
	if l.c.SpaceInterval > 0 {
		next = time.NewTimer(phase.Wait(time.Now(), l.c.SpaceInterval))
		defer next.Stop()
		tick = next.C
	}
	for {
		select {
		case <-l.stop:
			return
		case <-tick:
			l.checkSpace(0)
			next.Reset(phase.Wait(time.Now(), l.c.SpaceInterval))
			if l.Space().Pressure == PressureNone {
				continue
			}
		case <-l.kick:
		}
		if l.c.manual {
			continue
		}
		if err := l.tidy(); err != nil {
			return // the log has failed or is closing
		}
	}
}

// tidy frees and compacts until there is nothing to do. Only the housekeeper calls it. In a log with manual set no
// housekeeper runs, and a test calls it instead.
func (l *Log) tidy() error {
	for {
		freed, err := l.freeDead()
		if err != nil {
			return err
		}
		l.mu.Lock()
		victims := l.victims()
		if err = l.usable(); err != nil {
			victims = nil
		}
		l.mu.Unlock()
		if len(victims) > 0 {
			err = l.carry(victims)
		}
		if err != nil {
			return err
		}
		if len(victims) == 0 && !freed {
			return nil
		}
		if l.Space().Pressure != PressureNone {
			l.checkSpace(0)
		}
	}
}

// freeDead frees the segments that may go, and the spares if space is scarce; one sync of the
// directory is enough for all.
func (l *Log) freeDead() (bool, error) {
	l.mu.Lock()
	dead, spared := l.takeDead()
	var shed []spare
	if l.scarce() {
		shed, l.spares = l.spares, nil
	}
	err := l.usable()
	l.mu.Unlock()
	if len(dead)+len(shed) == 0 || err != nil {
		return false, err
	}
	for _, s := range shed {
		if err = l.dir.Remove(s.name); err != nil {
			break
		}
	}
	if err == nil && len(dead) > 0 {
		err = l.writeInventory(l.files)
	}
	for _, s := range dead {
		if err != nil {
			break
		}
		name := segmentName(s.seq)
		err = s.file.Close()
		switch {
		case err != nil:
		case s == spared:
			err = l.dir.Rename(name, spareName(s.seq))
		default:
			err = l.dir.Remove(name)
		}
	}
	if err == nil {
		// Before it is known that the files are gone, no record that keeps their records
		// dead may go.
		err = l.files.SyncDir()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.fail(fmt.Errorf("free %d segments and %d spares: %w", len(dead), len(shed), err))
		return false, l.err
	}
	for _, s := range dead {
		delete(l.bySeq, s.seq)
	}
	l.segs = slices.DeleteFunc(l.segs, func(o *segment) bool { return o.freeing })
	if spared != nil {
		l.spares = append(l.spares, spare{spareName(spared.seq), spared.size})
	}
	return true, nil
}

// takeDead returns the segments that may be freed, and which of them becomes a spare: none
// while space is scarce.
func (l *Log) takeDead() (dead []*segment, spared *segment) {
	scarce := l.scarce()
	for s := l.nextDead(); s != nil; s = l.nextDead() {
		s.freeing = true
		dead = append(dead, s)
		if !scarce && spared == nil && l.toReuse() < l.c.Spares && s.size <= 2*l.c.SegmentBytes {
			spared = s
		}
	}
	return dead, spared
}

// toReuse counts the files that wait to be written over, the next segment's included.
func (l *Log) toReuse() int {
	n := len(l.spares)
	if l.ahead != nil && l.ahead.full > 0 {
		n++
	}
	return n
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
		if s.deadAt > l.Durable() {
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

// victims returns the segments to compact in one go, emptiest first.
func (l *Log) victims() []*segment {
	var sealed, live, total, n int64
	var all []*segment
	for _, s := range l.segs {
		live += s.live
		total += s.bytes()
		if !s.closed || s.freeing {
			continue
		}
		sealed += s.size
		n++
		if !s.stuck && s.live > 0 {
			all = append(all, s)
		}
	}
	limits := l.yields()
	slices.SortFunc(all, func(a, b *segment) int { return cmp.Compare(a.live*b.size, b.live*a.size) })
	var victims []*segment
	for _, s := range all {
		tooMuch := (limits.any || 2*sealed > garbageFactor*live) && 2*s.live < s.size
		overBudget := (limits.all || l.c.BudgetBytes > 0 && total > l.c.BudgetBytes) && 4*s.live < 3*s.size
		if !tooMuch && !overBudget || len(victims) == limits.most || s.live > limits.room {
			break
		}
		victims = append(victims, s)
		sealed -= s.size
		total -= s.size - s.live
	}
	if len(victims) == 0 && len(all) > 0 && !limits.any && n > 2*(sealed/l.c.SegmentBytes)+smallSegments {
		return []*segment{slices.MinFunc(all, func(a, b *segment) int { return cmp.Compare(a.size, b.size) })}
	}
	return victims
}

// carry appends the live records of segments again and waits until they are durable. The
// segments then are dead.
func (l *Log) carry(victims []*segment) error {
	bytes := int64(0)
	for _, s := range victims {
		err := l.carrySegment(s, &bytes)
		if err != nil {
			return err
		}
	}
	if err := l.waitAll(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range victims {
		s.stuck = s.stuck || s.live != 0
	}
	return nil
}

// waitAll waits until everything that was appended is durable.
func (l *Log) waitAll() error {
	l.mu.Lock()
	end := l.appended
	l.mu.Unlock()
	return l.wait(end)
}

// carrySegment appends a segment's live records. When bytes, what was looked at since the
// last wait, exceeds carryBytes, it waits until they are durable: groups that commit share
// a batch with no more than that.
func (l *Log) carrySegment(s *segment, bytes *int64) error {
	footer, err := readFooter(s)
	if err != nil {
		l.mu.Lock()
		s.stuck = true
		l.mu.Unlock()
		l.c.Logger.Error("a segment cannot be compacted", "segment", segmentName(s.seq), "error", err)
		return nil
	}
	var items []item
	err = parseItems(footer, func(it item) error {
		items = append(items, it)
		if len(items) < carryItems {
			return nil
		}
		err := l.carryLive(s, items, bytes)
		items = items[:0]
		return err
	})
	if err != nil {
		return err
	}
	return l.carryLive(s, items, bytes)
}

// carryLive carries the live ones of some neighbouring records.
func (l *Log) carryLive(s *segment, items []item, bytes *int64) error {
	l.mu.Lock()
	alive := items[:0]
	for i := range items {
		if l.isLive(s, &items[i]) {
			alive = append(alive, items[i])
		}
	}
	err := l.usable()
	l.mu.Unlock()
	for len(alive) > 0 && err == nil {
		n := 0
		for n < len(alive) && *bytes < carryBytes {
			*bytes += alive[n].size
			n++
		}
		if err = l.carrySome(s, alive[:n]); err == nil && *bytes >= carryBytes {
			*bytes = 0
			err = l.waitAll()
		}
		alive = alive[n:]
	}
	return err
}

// carrySome carries records that were live a moment ago.
func (l *Log) carrySome(s *segment, alive []item) error {
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

// isLive reports whether a record of a segment is needed.
func (l *Log) isLive(s *segment, it *item) bool {
	at := loc{s.seq, uint32(it.at), uint32(it.size)}
	if it.group == listGroup {
		return at == l.gapAt
	}
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
	if it.group == listGroup {
		l.putGap()
		return
	}
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
		g.wrote()
	case KindState:
		g.putState(CauseCarry)
	case KindKeep:
		k := g.keeps[g.keepAt(at)]
		g.keeps = slices.Delete(g.keeps, g.keepAt(at), g.keepAt(at)+1)
		if !oldest {
			g.putKeeps(k.span, k.epoch)
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
