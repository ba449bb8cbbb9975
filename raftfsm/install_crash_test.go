package raftfsm

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/wal"
	"github.com/quorate/quorate/wal/vfs"
)

// bodyRuns is a machine's state that refers to some bodies.
type bodyRuns []BodyRun

func (r bodyRuns) Live() iter.Seq[BodyRun]        { return slices.Values(r) }
func (r bodyRuns) AppendSnapshot(b []byte) []byte { return append(b, "machine"...) }

// The member's own state of entry 5, that of entry 15 if it gets there by the log, and the
// leader's of entry 20: bodies are settled one by one, others come.
var (
	stateAt5 = bodyRuns{
		{Index: 2, Entries: 1, Slots: 2},
		{Index: 4, Entries: 1, Slots: 2},
		{Index: 5, Entries: 1, Slots: 2},
	}
	stateAt15 = bodyRuns{
		{Index: 2, Entries: 1, Slots: 2},
		{Index: 4, Entries: 1, Slots: 2},
		{Index: 8, Entries: 1, Slots: 2},
		{Index: 12, Entries: 1, Slots: 2},
		{Index: 14, Entries: 1, Slots: 2},
	}
	stateAt20 = bodyRuns{
		{Index: 2, Entries: 1, Slot: 1, Slots: 1},
		{Index: 4, Entries: 1, Slots: 2},
		{Index: 8, Entries: 1, Slots: 1},
		{Index: 12, Entries: 1, Slot: 1, Slots: 1},
		{Index: 14, Entries: 1, Slots: 2},
		{Index: 20, Entries: 1, Slots: 1},
	}
)

// What the leaders of the terms wrote: entries to 10 are of term 1, term 2's leader put
// some behind them that were never committed, and term 3's others in their place.
const (
	lastCommon = 10
	lostTerm   = 2
	newTerm    = 3
)

func installBody(index, term uint64, slot int) string {
	return fmt.Sprintf("body %d of entry %d of term %d", slot, index, term)
}

func installLogs(first, last, term uint64) []*raft.Log {
	var logs []*raft.Log
	for i := first; i <= last; i++ {
		l := &raft.Log{Index: i, Term: term, Type: raft.LogCommand}
		l.Data = appendEntry(nil, testGroup, entryHead{term: term, seq: i}, []Command{command("c", installBody(i, term, 0), installBody(i, term, 1))})
		if term == lostTerm && i == 12 {
			l.Type, l.Data = raft.LogNoop, nil // where the leader's has bodies
		}
		logs = append(logs, l)
	}
	return logs
}

// installMember is a member's storage and snapshots, without raft: the test does what raft
// does, and may stop anywhere.
type installMember struct {
	log   *wal.Log
	group *wal.GroupLog
	snaps *snapshots
}

func openInstall(d vfs.Dir, dir string, applied uint64) (*installMember, error) {
	l, err := wal.Open(d, wal.Config{SegmentBytes: 4096, SpaceInterval: -1, LowBytes: -1, FloorBytes: -1})
	if err != nil {
		return nil, err
	}
	m := &installMember{log: l}
	if m.group, err = l.Group(testGroup); err != nil {
		return m, err
	}
	s, err := OpenSnapshots(filepath.Join(dir, "snapshots"), m.group)
	if err != nil {
		return m, err
	}
	var ok bool
	if m.snaps, ok = s.(*snapshots); !ok {
		return m, fmt.Errorf("store is a %T", s)
	}
	if err := m.snaps.bind(testGroup, idleOwner()); err != nil {
		return m, err
	}
	if err := m.snaps.recover(); err != nil {
		return m, err
	}
	m.snaps.started(func() uint64 { return applied })
	return m, nil
}

func (m *installMember) create(index, term uint64) (raft.SnapshotSink, error) {
	c := raft.Configuration{Servers: []raft.Server{{ID: "n1", Address: "n1"}}}
	return m.snaps.Create(raft.SnapshotVersionMax, index, term, c, 1, nil)
}

// own takes a snapshot of the member's own, and lets go what it makes needless.
func (m *installMember) own(index, term uint64, state bodyRuns, dropTo uint64) error {
	sink, err := m.create(index, term)
	if err != nil {
		return err
	}
	if err := (&machineSnapshot{state: state, compact: new(compaction)}).Persist(sink); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return errors.Join(m.group.DeleteRange(1, dropTo), m.snaps.compact())
}

// install takes the leader's snapshot as raft does. With cut it breaks off there. A log that has the
// snapshot's last entry, as after a crash behind the steps, takes nothing.
func (m *installMember) install(stream []byte, cut int) error {
	sink, err := m.create(20, newTerm)
	if err != nil {
		return err
	}
	if cut > 0 {
		_, err := sink.Write(stream[:cut])
		if errors.Is(err, errNothingNew) {
			return sink.Cancel()
		}
		return errors.Join(err, sink.Cancel(), m.snaps.compact())
	}
	if _, err := sink.Write(stream); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	if err := sink.Close(); err != nil {
		return err
	}
	return m.dropLog()
}

// dropLog is what raft does behind an installed snapshot.
func (m *installMember) dropLog() error {
	first, err1 := m.group.FirstIndex()
	last, err2 := m.group.LastIndex()
	if err := errors.Join(err1, err2); err != nil || last == 0 {
		return err
	}
	return m.group.DeleteRange(first, last)
}

// check reads all that the newest snapshot refers to, and looks whether raft would find a
// log that belongs to it.
func (m *installMember) check() error {
	f := m.snaps.latest()
	state := map[uint64]bodyRuns{5: stateAt5, 15: stateAt15, 20: stateAt20}[f.index]
	for _, r := range state {
		term := uint64(1)
		if r.Index > lastCommon {
			term = newTerm
		}
		set, _, err := loadBodies(m.group, testGroup, r.Index)
		if err != nil {
			return fmt.Errorf("entry %d of the state of entry %d: %w", r.Index, f.index, err)
		}
		for slot := r.Slot; slot < r.Slot+r.Slots; slot++ {
			b, ok := set.body(slot)
			if want := installBody(r.Index, term, int(slot)); !ok || string(b) != want {
				return fmt.Errorf("state of entry %d: body is %q instead of %q", f.index, b, want)
			}
		}
	}
	for i := uint64(1); i <= f.index; i++ {
		var l raft.Log
		if err := m.group.GetLog(i, &l); err == nil && l.Term == lostTerm {
			return fmt.Errorf("the log has entry %d of term %d below the snapshot of entry %d", i, l.Term, f.index)
		}
	}
	return m.unmixed(f.index)
}

// unmixed looks for entries of a snapshot that did not become the member's.
func (m *installMember) unmixed(snapshot uint64) error {
	for i := snapshot + 1; i <= 25 && snapshot < 20; i++ {
		var own, read raft.Log
		ownErr, readErr := m.group.GetLog(i, &own), m.group.Entry(i, &read)
		if !errors.Is(readErr, ownErr) || string(own.Data) != string(read.Data) {
			return fmt.Errorf("entry %d of the log has %q (%s), read is %q (%s)", i, own.Data, fmt.Sprint(ownErr), read.Data, fmt.Sprint(readErr))
		}
	}
	return nil
}

// installCase is what a member has in its log behind the common entries, and what becomes
// of the snapshot.
type installCase struct {
	last uint64 // of the log
	term uint64 // of what is behind the common entries
	cut  bool   // the snapshot breaks off, and the member continues from the log
}

func (c installCase) String() string {
	return fmt.Sprintf("log to %d of term %d, cut %t", c.last, c.term, c.cut)
}

// prepare makes the member as the snapshot from the leader finds it.
func (c installCase) prepare(m *installMember) error {
	return errors.Join(
		m.group.StoreLogs(installLogs(1, lastCommon, 1)), m.group.StoreLogs(installLogs(lastCommon+1, c.last, c.term)),
		m.own(5, 1, stateAt5, 4), m.group.Sync())
}

// conflict drops what the log has of another leader, as raft does before it appends.
func (m *installMember) conflict() error {
	last, err := m.group.LastIndex()
	if err != nil || last <= lastCommon {
		return err
	}
	return m.group.DeleteRange(lastCommon+1, last)
}

// crashPoint is where the power goes: at an operation on the disk, or behind a step while
// what it wrote is still in memory.
type crashPoint struct {
	operation, step int
	synced          bool // each step waits for the disk
}

// play goes through the installation and what follows it.
func (c installCase) play(m *installMember, stream []byte, until crashPoint) error {
	steps := []func() error{
		func() error { return m.install(stream, 0) },
		m.check,
		m.snaps.compact,
		m.check,
		func() error { return m.group.StoreLogs(installLogs(21, 24, newTerm)) },
		m.check,
		m.snaps.compact,
		m.group.Sync,
	}
	if c.cut {
		steps = []func() error{
			func() error { return m.install(stream, len(stream)) },
			m.conflict,
			func() error { return m.group.StoreLogs(installLogs(lastCommon+1, 20, newTerm)) },
			m.check,
			func() error { return m.own(15, newTerm, stateAt15, 14) },
			m.check,
			m.group.Sync,
		}
	}
	for n, s := range append(steps, m.check) {
		if until.step == n+1 {
			return vfs.ErrPowerOff
		}
		if err := s(); err != nil {
			return err
		}
		if !until.synced {
			continue
		}
		if err := m.group.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// leaderStream is the leader's snapshot.
func leaderStream(t *testing.T) []byte {
	t.Helper()
	m, err := openInstall(vfs.NewMem(), memoryDir(t), 20)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.log.Close() }()
	err = errors.Join(
		m.group.StoreLogs(installLogs(1, lastCommon, 1)), m.group.StoreLogs(installLogs(lastCommon+1, 20, newTerm)),
		m.own(20, newTerm, stateAt20, 19), m.check())
	if err != nil {
		t.Fatal(err)
	}
	return readStream(t, m.snaps)
}

// A snapshot from the leader comes to a member whose log is shorter or longer than it, and
// its own or another leader's; the power goes at every operation on the disk. Afterwards
// every body can be read that the state refers to which the member then has, the right one,
// and nothing of the other leader's log is left below it.
func TestInstallSurvivesACrashAtEveryStep(t *testing.T) {
	t.Parallel()
	stream := leaderStream(t)
	for _, c := range []installCase{
		{last: 10},
		{last: 13, term: lostTerm},
		{last: 25, term: lostTerm},
		{last: 16, term: newTerm},
		{last: 13, term: lostTerm, cut: true},
		{last: 25, term: lostTerm, cut: true},
	} {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			crashed := 0
			for _, at := range []crashPoint{{operation: 1}, {operation: 1, synced: true}, {step: 1}} {
				for again := true; again; {
					again = false
					for loss := range vfs.Losses {
						if c.crashAt(t, stream, at, loss) {
							again = true
							crashed++
						}
					}
					if at.step > 0 {
						at.step++
					} else {
						at.operation++
					}
				}
			}
			if crashed < 60 {
				t.Errorf("only %d crashes", crashed)
			}
		})
	}
}

// crashAt plays the case until the power goes, and again after a second start; false if
// the point is behind the end.
func (c installCase) crashAt(t *testing.T, stream []byte, at crashPoint, loss vfs.Loss) bool {
	t.Helper()
	context := fmt.Sprintf("power off at %+v, loss %d", at, loss)
	random := rand.New(rand.NewPCG(uint64(at.operation+at.step), uint64(loss)))
	d, dir := vfs.NewMem(), t.TempDir()
	m, err := openInstall(d, dir, lastCommon)
	if err == nil {
		err = c.prepare(m)
	}
	if err != nil {
		t.Fatal(err)
	}
	if at.operation > 0 {
		d.PowerOffAt(vfs.OpAny, at.operation)
	}
	err = c.play(m, stream, at)
	// A read that the power cut ends makes the group lost, which does not wrap the cause.
	if err != nil && !strings.Contains(err.Error(), vfs.ErrPowerOff.Error()) {
		t.Fatalf("%s: %v", context, err)
	}
	for range 2 {
		next := d.Crash(loss, random)
		_ = m.log.Close() // its disk is off
		d = next
		opened, openErr := openInstall(d, dir, lastCommon)
		if openErr != nil {
			t.Fatalf("%s: %v", context, openErr)
		}
		m = opened
		if err := m.check(); err != nil {
			t.Fatalf("%s, after the start: %v", context, err)
		}
		if err := errors.Join(m.snaps.compact(), m.check()); err != nil {
			t.Fatalf("%s, after compaction: %v", context, err)
		}
	}
	if f := m.snaps.latest(); f.index == 5 {
		// The leader tries again, or continues with its log.
		if err := c.play(m, stream, crashPoint{}); err != nil {
			t.Fatalf("%s, a second time: %v", context, err)
		}
	}
	if closeErr := m.log.Close(); closeErr != nil {
		t.Fatalf("%s: %v", context, closeErr)
	}
	return err != nil
}

// A snapshot whose last entry is in the log is refused: raft would drop the entries behind it, which
// the member has said to have.
func TestSnapshotInTheLogIsRefused(t *testing.T) {
	t.Parallel()
	m, err := openInstall(vfs.NewMem(), memoryDir(t), lastCommon)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.log.Close() }()
	if err := (installCase{last: 25, term: newTerm}).prepare(m); err != nil {
		t.Fatal(err)
	}
	if err := m.install(leaderStream(t), 0); !errors.Is(err, errNothingNew) {
		t.Error(err)
	}
	if last, err := m.group.LastIndex(); last != 25 || m.snaps.latest().index != 5 {
		t.Errorf("the log ends at %d, %v; the snapshot is of entry %d", last, err, m.snaps.latest().index)
	}
}
