package raftfsm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

func snapshotOften(_ *member, c *Config[reply, string]) {
	c.SnapshotEntries, c.TrailingEntries = 50, 10
}

func (m *member) files(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(m.dir, "snapshots"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Snapshots shorten the log; bodies that the state refers to stay, others go, also from a member that led.
func TestSnapshotKeepsLiveBodies(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, func(m *member, cfg *Config[reply, string]) {
		snapshotOften(m, cfg)
		cfg.BodyCache = NewBodyCache(0) // bodies come from the storage: the cache of who led has dead ones
	})
	c.propose("old", "stays for good")
	for i := range 300 {
		c.propose(fmt.Sprint(i), "body")
		if i%20 == 19 {
			c.propose("keep 30", "kept") // "old" goes with the first of them
		}
		switch i {
		case 0:
			c.propose("keep 1000", "kept")
		case 290:
			c.transfer(c.follower())
		}
	}
	c.equal()
	for _, m := range c.members {
		until(t, "a snapshot on "+string(m.node), func() bool { s := m.group.Stats(); return s.SnapshotIndex > 0 && s.FirstIndex > 200 })
		if err := m.group.Snapshot(); err != nil {
			t.Fatal(err)
		}
		if n := m.readable(t); n < 25 {
			t.Errorf("%s: only %d bodies", m.node, n)
		}
		var oldest record
		m.group.Read(func() { oldest = m.machine.records[0] })
		until(t, "a dead body is gone from "+string(m.node), func() bool { // the snapshot may be one that is not yet done with
			_, err := m.group.Body(BodyRef{Index: oldest.Index - 40})
			return errors.Is(err, raft.ErrLogNotFound)
		})
		if names := m.files(t); len(names) != 1 || !strings.HasSuffix(names[0], snapshotSuffix) {
			t.Errorf("%s: files %v", m.node, names)
		}
	}
	for _, m := range c.members {
		c.close(m)
	}
	for _, m := range c.members {
		c.open(m)
	}
	c.propose("after", "body")
	c.equal()
	for _, m := range c.members {
		m.readable(t)
	}
}

// A snapshot of a group at rest leaves almost nothing of the log behind it, where an ordinary one leaves what followers may
// lack.
func TestSnapshotAtRest(t *testing.T) {
	t.Parallel()
	l := leaderOf(t, newLogCluster(t, 1, nil), nil)
	for i := range 100 {
		comes(t, "an entry", l.submit(fmt.Sprint(i)))
	}
	if err := l.group.Snapshot(); err != nil {
		t.Fatal(err)
	}
	if s := l.group.Stats(); s.LastIndex-s.FirstIndex < 100 || l.group.TrailingBytes() == 0 {
		t.Errorf("an ordinary snapshot leaves entries %d to %d, %d bytes", s.FirstIndex, s.LastIndex, l.group.TrailingBytes())
	}
	comes(t, "something new", l.submit("new"))
	if err := l.group.SnapshotAtRest(); err != nil {
		t.Fatal(err)
	}
	until(t, "the log is short", func() bool {
		s := l.group.Stats()
		return s.LastIndex-s.FirstIndex < minTrailing && l.group.TrailingBytes() == 0
	})
	comes(t, "something new", l.submit("newer"))
}

// Commands are proposed, applied and answered while a snapshot is encoded and written; it
// holds the state of the moment at which it began.
func TestCommandsAreAppliedWhileASnapshotIsWritten(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	m := c.leader()
	c.propose("before", "body")
	gate := make(chan struct{})
	m.group.Read(func() { m.machine.gate = gate })
	written := make(chan error, 1)
	go func() { written <- m.group.Snapshot() }()
	until(t, "a frozen state", func() bool { return m.group.compact.taken.Load() == 1 })
	for i := range 50 {
		c.propose(fmt.Sprint("meanwhile ", i), "body")
	}
	select {
	case err := <-written:
		t.Fatalf("the snapshot was complete before its state was encoded: %v", err)
	default:
	}
	m.group.Read(func() { m.machine.gate = nil })
	close(gate)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	f := m.group.snaps.latest()
	b, err := os.ReadFile(f.path)
	if err != nil {
		t.Fatal(err)
	}
	state, err := f.readMachine(bytes.NewReader(b))
	if err != nil || !bytes.Contains(state, []byte("before")) || bytes.Contains(state, []byte("meanwhile")) {
		t.Errorf("state of %q, %v", state, err)
	}
	c.close(m)
	c.open(m)
	until(t, "everything to be applied again", func() bool { return len(m.headers()) == 51 })
	m.readable(t)
}

// One old message among many that are gone pins its own entry, not the log (RE-8).
func TestOneLiveBodyPinsOneEntry(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, func(_ *member, config *Config[reply, string]) { config.TrailingEntries = 1 })
	m := c.leader()
	c.propose("pinned", "the one")
	var ref BodyRef
	m.group.Read(func() { ref.Index = m.machine.records[1].Index })
	for i := range 100 {
		c.propose(fmt.Sprint(i), "body")
	}
	m.group.Read(func() { // settled, except for the first
		for i := range m.machine.records[2:] {
			m.machine.records[2+i].Bodies = 0
		}
	})
	c.propose("last")
	if err := m.group.Snapshot(); err != nil {
		t.Fatal(err)
	}
	kept := 0
	for i := uint64(1); i <= m.group.Stats().LastIndex; i++ {
		if m.storage.Entry(i, new(raft.Log)) == nil {
			kept++
		}
	}
	if kept > 3 {
		t.Errorf("%d entries are kept", kept)
	}
	if body, err := m.group.Body(ref); err != nil || string(body) != "the one" {
		t.Errorf("body %q, %v", body, err)
	}
}

// A member that the log can no longer help gets the machine's bytes and the live bodies, and can serve both, lead,
// and help the next one so.
func TestMemberRestoredBySnapshotHasTheBodies(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, snapshotOften)
	c.propose("first", "first body", "second body")
	away := c.follower()
	c.close(away)
	for i := range 200 {
		c.propose(fmt.Sprint(i), fmt.Sprintf("body %d", i), "x")
	}
	c.propose("keep 80", "kept")
	for _, m := range c.members {
		if m != away {
			if err := m.group.Snapshot(); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.open(away)
	c.equal()
	// 80*2-1, or fewer if commands of a new leader are among the 80.
	if n, want := away.readable(t), c.leader().readable(t); n != want || n < 80 {
		t.Errorf("%s has %d bodies, its leader %d", away.node, n, want)
	}
	until(t, "the restored member to drop its old log", func() bool {
		s := away.group.Stats()
		return s.SnapshotIndex > 0 && (s.FirstIndex == 0 || s.FirstIndex > s.SnapshotIndex)
	})
	c.transfer(away)
	c.propose("by the restored one", "body")
	c.equal()
	// From sparse entries to the next member.
	next := c.follower()
	c.close(next)
	for i := range 60 {
		c.propose(fmt.Sprint("more ", i))
	}
	if err := away.group.Snapshot(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(next.dir); err != nil {
		t.Fatal(err)
	}
	next.dir = t.TempDir()
	c.open(next)
	c.equal()
	if next.readable(t) != away.readable(t) {
		t.Error("bodies were lost on the way from a restored member")
	}
	c.close(next)
	c.open(next)
	c.equal()
	next.readable(t)
}

// fixture is a durable snapshot of three entries, of which two are live.
func snapshotFixture(t *testing.T) (*snapshots, Storage) {
	t.Helper()
	dir, storage := t.TempDir(), testStorage(t)
	s := openTestSnapshots(t, dir, storage)
	var logs []*raft.Log
	for i := uint64(1); i <= 3; i++ {
		data := appendEntry(nil, testGroup, entryHead{term: 1, seq: i}, []Command{command("c", fmt.Sprint("body ", i), "second")})
		logs = append(logs, &raft.Log{Index: i, Term: 1, Type: raft.LogCommand, Data: data})
	}
	if err := storage.StoreLogs(logs); err != nil {
		t.Fatal(err)
	}
	sink := createSink(t, s, 3)
	if err := (&machineSnapshot{state: fixtureState{}, compact: new(compaction)}).Persist(sink); err != nil {
		t.Fatal(err)
	}
	return s, storage
}

type fixtureState struct{}

func (fixtureState) AppendSnapshot(b []byte) []byte { return append(b, "the machine's bytes"...) }
func (fixtureState) Live() iter.Seq[BodyRun] {
	return slices.Values([]BodyRun{
		{Index: 1, Entries: 1, Slot: 1, Slots: 1}, {Index: 3, Entries: 1, Slots: 1}, {Index: 3, Entries: 1, Slot: 1, Slots: 1},
	})
}

func openTestSnapshots(t *testing.T, dir string, storage Storage) *snapshots {
	t.Helper()
	st, err := OpenSnapshots(filepath.Join(dir, "snapshots"), storage)
	if err != nil {
		t.Fatal(err)
	}
	s, ok := st.(*snapshots)
	if !ok {
		t.Fatalf("store is a %T", st)
	}
	if err := s.bind(testGroup, idleOwner()); err != nil {
		t.Fatal(err)
	}
	s.started(func() uint64 { return 0 })
	return s
}

func createSink(t *testing.T, s *snapshots, index uint64) raft.SnapshotSink {
	t.Helper()
	config := raft.Configuration{Servers: []raft.Server{{ID: "n1", Address: "n1"}}}
	sink, err := s.Create(raft.SnapshotVersionMax, index, 1, config, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sink
}

func readStream(t *testing.T, s *snapshots) []byte {
	t.Helper()
	list, err := s.List()
	if err != nil || len(list) != 1 {
		t.Fatalf("list %v, %v", list, err)
	}
	meta, r, err := s.Open(list[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(b)) != meta.Size {
		t.Fatalf("stream has %d bytes, foretold were %d", len(b), meta.Size)
	}
	if err := errors.Join(r.Close(), r.Close()); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSnapshotGolden(t *testing.T) {
	s, _ := snapshotFixture(t)
	file, err := os.ReadFile(s.latest().path)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "snapshot_v2.hex", file)
	golden(t, "snapshot_stream_v2.hex", readStream(t, s))
}

func TestSnapshotStream(t *testing.T) {
	s, _ := snapshotFixture(t)
	stream := readStream(t, s)
	to, storage := emptySnapshots(t)
	sink := createSink(t, to, 3)
	if n, err := io.Copy(sink, iotestOneByte{bytes.NewReader(stream)}); err != nil || n != int64(len(stream)) {
		t.Fatal(n, err)
	}
	if err := errors.Join(sink.Close(), sink.Close(), sink.Cancel()); err != nil {
		t.Fatal(err)
	}
	meta, r, err := to.Open(sink.ID())
	if err != nil || meta.Index != 3 || meta.Term != 1 || len(meta.Configuration.Servers) != 1 || meta.ConfigurationIndex != 1 {
		t.Fatalf("%+v, %v", meta, err)
	}
	sr, ok := r.(*snapshotReader)
	if !ok || !sr.local {
		t.Fatal("the first reader after an installation is for the machine")
	}
	if b, err := sr.machine(); err != nil || string(b) != "the machine's bytes" {
		t.Fatalf("%q, %v", b, err)
	}
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, errLocalOnly) {
		t.Errorf("reading it as bytes: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[BodyRef]string{{1, 1}: "second", {3, 0}: "body 3", {3, 1}: "second"} {
		set, _, err := loadBodies(storage, testGroup, ref.Index)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := set.body(ref.Slot); !ok || string(got) != want {
			t.Errorf("body %+v is %q", ref, got)
		}
	}
	if again := readStream(t, to); !bytes.Equal(again, stream) {
		t.Error("the stream changes on its way through a member")
	}
}

// iotestOneByte hands out a byte at a time.
type iotestOneByte struct{ r io.Reader }

func (o iotestOneByte) Read(p []byte) (int, error) { return o.r.Read(p[:min(1, len(p))]) }

func emptySnapshots(t *testing.T) (*snapshots, Storage) {
	t.Helper()
	dir, storage := t.TempDir(), testStorage(t)
	return openTestSnapshots(t, dir, storage), storage
}

// Whatever is wrong with a stream, nothing of it becomes a snapshot.
func TestSnapshotStreamDamageIsNoticed(t *testing.T) {
	s, _ := snapshotFixture(t)
	stream := readStream(t, s)
	to, _ := emptySnapshots(t)
	refused := func(what string, b []byte) {
		t.Helper()
		sink := createSink(t, to, 3)
		_, werr := sink.Write(b)
		if err := errors.Join(werr, sink.Close()); err == nil {
			t.Fatalf("%s was taken", what)
		}
		if names, err := os.ReadDir(to.dir); err != nil || len(names) > 0 {
			t.Fatalf("%s left %v, %v", what, names, err)
		}
	}
	for i := range stream {
		b := bytes.Clone(stream)
		b[i] ^= 1 << (i % 8)
		refused(fmt.Sprintf("flipped bit in byte %d", i), b)
	}
	for i := 0; i < len(stream); i += 7 {
		refused(fmt.Sprintf("cut at byte %d", i), stream[:i])
	}
	refused("longer stream", append(bytes.Clone(stream), 0))
}

func TestSnapshotCancelLeavesNothing(t *testing.T) {
	s, _ := snapshotFixture(t)
	stream := readStream(t, s)
	to, storage := emptySnapshots(t)
	sink := createSink(t, to, 3)
	if _, err := sink.Write(stream[:len(stream)-1]); err != nil {
		t.Fatal(err)
	}
	if err := to.compact(); err != nil { // put off: bodies may have come already
		t.Fatal(err)
	}
	if err := errors.Join(sink.Cancel(), sink.Cancel()); err != nil {
		t.Fatal(err)
	}
	if err := to.compact(); err != nil {
		t.Fatal(err)
	}
	for i := uint64(1); i <= 3; i++ {
		if err := storage.Entry(i, new(raft.Log)); !errors.Is(err, raft.ErrLogNotFound) {
			t.Errorf("entry %d: %v", i, err)
		}
	}
	if names, err := os.ReadDir(to.dir); err != nil || len(names) > 0 {
		t.Errorf("files %v, %v", names, err)
	}
}

// observed is a storage that reports each read of an entry before it is done.
type observed struct {
	Storage
	entry func()
}

func (o observed) Entry(index uint64, out *raft.Log) error {
	o.entry()
	return o.Storage.Entry(index, out)
}

// Before the first byte of a snapshot is sent all bodies are read to count its bytes. How far that is can be seen, and the
// stream continues from there: a join that makes no progress is taken back.
func TestCountingASnapshotIsSeen(t *testing.T) {
	s, storage := snapshotFixture(t)
	var seen []int64
	s.storage = observed{storage, func() { seen = append(seen, s.counting()) }}
	if n := s.counting(); n != 0 {
		t.Errorf("%d bytes are counted of no snapshot", n)
	}
	meta, r, err := s.Open(s.latest().id())
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) != 2 || seen[0] <= 0 || seen[1] <= seen[0] || seen[1] >= meta.Size {
		t.Errorf("of %d bytes %d were counted before each entry", meta.Size, seen)
	}
	if n := s.counting(); n != 0 {
		t.Errorf("%d bytes are counted after that", n)
	}
	var to streams
	stream := to.begin("n2", r)
	if n := to.read("n2"); n != meta.Size {
		t.Errorf("the stream begins at %d, want %d", n, meta.Size)
	}
	if _, err := io.Copy(io.Discard, stream); err != nil {
		t.Fatal(err)
	}
	if n := to.read("n2"); n != 2*meta.Size {
		t.Errorf("the stream ends at %d, want %d", n, 2*meta.Size)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// While a snapshot is being sent nothing that it refers to is dropped.
func TestNothingIsDroppedWhileASnapshotIsSent(t *testing.T) {
	s, storage := snapshotFixture(t)
	idle := make(chan struct{}, 1)
	s.owner.onIdle = func() { idle <- struct{}{} }
	id := s.latest().id()
	meta, r, err := s.Open(id)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(storage.StoreLogs(testLogs(4, 4, 1)), storage.DeleteRange(1, 3)); err != nil {
		t.Fatal(err)
	}
	newer := createSink(t, s, 4) // nothing is live in it
	if err := (&machineSnapshot{state: nothing{}, compact: new(compaction)}).Persist(newer); err != nil {
		t.Fatal(err)
	}
	if err := s.compact(); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil || int64(len(b)) != meta.Size {
		t.Fatalf("%d bytes of %d, %v", len(b), meta.Size, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	<-idle
	if err := s.compact(); err != nil {
		t.Fatal(err)
	}
	if err := storage.Entry(1, new(raft.Log)); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("entry 1 afterwards: %v", err)
	}
	if _, _, err := s.Open(id); err == nil {
		t.Error("the old snapshot is still there")
	}
	older := createSink(t, s, 2)
	if err := (&machineSnapshot{state: nothing{}, compact: new(compaction)}).Persist(older); err == nil {
		t.Error("an older snapshot replaced a newer one")
	}
}

// A snapshot file with one wrong bit is never restored.
func TestDamagedSnapshotFileIsRefused(t *testing.T) {
	s, storage := snapshotFixture(t)
	path := s.latest().path
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(filepath.Dir(path))
	for i := range whole {
		b := bytes.Clone(whole)
		b[i] ^= 1 << (i % 8)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		st, err := OpenSnapshots(filepath.Join(dir, "snapshots"), storage)
		if err == nil {
			opened, ok := st.(*snapshots)
			if !ok {
				t.Fatalf("store is a %T", st)
			}
			_, err = opened.latest().readMachine(bytes.NewReader(b))
		} else if !strings.Contains(err.Error(), path) {
			t.Fatalf("error does not name the file: %v", err)
		}
		if err == nil {
			t.Fatalf("flipped bit in byte %d was not noticed", i)
		}
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"left.tmp", snapshotID(1, 1) + snapshotSuffix} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), name), whole[:10], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again := openTestSnapshots(t, dir, storage)
	if names, err := again.files(); err != nil || !slices.Equal(names, []string{filepath.Base(path)}) {
		t.Errorf("files %v, %v", names, err)
	}
	if err := again.bind(testGroup+1, idleOwner()); err == nil {
		t.Error("another group took the snapshot")
	}
}

func FuzzSnapshotHead(f *testing.F) {
	h := snapshotHead{group: testGroup, index: 9, term: 2, configIndex: 1, machineBytes: 3, liveBytes: 4}
	f.Add(h.append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := readSnapshotHead(bytes.NewReader(data))
		if err == nil && (h.machineBytes < 0 || h.liveBytes < 0) {
			t.Fatalf("lengths of %+v", h)
		}
	})
}

// A snapshot that cannot be written costs nothing but room: the group continues.
func TestSnapshotThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	c.propose("a", "body")
	m := c.leader()
	dir := filepath.Join(m.dir, "snapshots")
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // a file where the directory should be
		t.Fatal(err)
	}
	if err := m.group.Snapshot(); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("error %v does not name %s", err, dir)
	}
	c.propose("b", "body")
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := m.group.Snapshot(); err != nil {
		t.Error(err)
	}
	if s := m.group.Stats(); s.SnapshotIndex == 0 {
		t.Error("no snapshot")
	}
	m.readable(t)
}
