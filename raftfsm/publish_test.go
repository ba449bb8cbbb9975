package raftfsm

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
)

// idleOwner is the owner of snapshots that no group has.
func idleOwner() snapshotOwner {
	return snapshotOwner{log: slog.New(slog.DiscardHandler), onIdle: func() {}, fail: func(error) {}}
}

// installed receives the snapshot of another member.
func installed(t *testing.T, to *snapshots) raft.SnapshotSink {
	t.Helper()
	from, _ := snapshotFixture(t)
	sink := createSink(t, to, 3)
	if _, err := io.Copy(sink, bytes.NewReader(readStream(t, from))); err != nil {
		t.Fatal(err)
	}
	return sink
}

// hasBody checks that an entry that came with a snapshot is there.
func hasBody(t *testing.T, storage Storage) {
	t.Helper()
	if err := storage.Entry(3, new(raft.Log)); err != nil {
		t.Errorf("a body that the snapshot refers to: %v", err)
	}
}

// A snapshot counts once it is durable, although an older one cannot be removed.
func TestPublishedBesideAnOlderOne(t *testing.T) {
	t.Parallel()
	to, storage := emptySnapshots(t)
	sink := installed(t, to)
	if err := os.MkdirAll(filepath.Join(to.dir, "1"+snapshotSuffix, "kept"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Errorf("it is durable, but: %v", err)
	}
	if f := to.latest(); f == nil || f.index != 3 {
		t.Errorf("the newest snapshot is %+v", f)
	}
	hasBody(t, storage)
}

// If nobody knows whether the name of a snapshot is durable, neither the file nor what it refers to goes: a start may
// find it. The member stops.
func TestSnapshotWhoseNameIsNotDurable(t *testing.T) {
	t.Parallel()
	fails := func(s *snapshots) (failed *error) {
		failed = new(error)
		s.syncNames = func(string) error { return errDisk }
		s.owner.fail = func(err error) { *failed = err }
		return failed
	}
	refused := func(failed *error, err error) {
		t.Helper()
		if !errors.Is(err, errDisk) || !errors.Is(*failed, errUnknownOutcome) {
			t.Errorf("%v, the group fails with: %v", err, *failed)
		}
	}

	s, _ := snapshotFixture(t)
	failed := fails(s)
	sink := createSink(t, s, 3) // once more, of the entry of the only one that is there
	refused(failed, (&machineSnapshot{state: fixtureState{}, compact: new(compaction)}).Persist(sink))
	if err := sink.Cancel(); err != nil {
		t.Error(err)
	}
	if _, err := loadSnapshot(s.latest().path); err != nil {
		t.Errorf("the only snapshot: %v", err)
	}

	to, storage := emptySnapshots(t)
	failed = fails(to)
	sink = installed(t, to)
	refused(failed, sink.Close())
	again := openTestSnapshots(t, filepath.Dir(to.dir), storage)
	if err := again.recover(); err != nil {
		t.Fatal(err)
	}
	if f := again.latest(); f == nil || f.index != 3 {
		t.Errorf("a start finds %+v", f)
	}
	hasBody(t, storage)
}

// A group stops at such a snapshot, and continues after a start.
func TestGroupStopsAtASnapshotThatMayBeLost(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	c.propose("a", "body")
	m := c.leader()
	m.group.snaps.syncNames = func(string) error { return errDisk }
	if err := m.group.Snapshot(); err == nil {
		t.Error("a snapshot whose name is not durable counts")
	}
	if err := m.group.Failed(); !errors.Is(err, errUnknownOutcome) {
		t.Errorf("the group is left with %v", err)
	}
	c.close(m)
	c.open(m)
	c.propose("b")
	if n := m.readable(t); n != 1 {
		t.Errorf("%d bodies", n)
	}
}
