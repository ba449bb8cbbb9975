package raftfsm

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/wal"
	"github.com/quorate/quorate/wal/vfs"
)

func openResting(t *testing.T, dir string) *Resting {
	t.Helper()
	log, err := openLog(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := OpenResting(7, filepath.Join(dir, "snapshots"), log)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The forced configuration is the newest, in a term above all; what does not fit is refused
// and leaves the log as it is.
func TestForce(t *testing.T) {
	dir := t.TempDir()
	m := openResting(t, dir)
	empty, err := m.Inspect()
	if err != nil || empty.LastIndex != 0 || empty.Term != 0 || empty.Voters != nil {
		t.Fatalf("%+v, %v", empty, err)
	}
	if err := m.Force(1, []id.NodeID{"a", "b", "c"}, 5, nil); err != nil {
		t.Fatal(err)
	}
	if err := m.log.StoreLogs([]*raft.Log{{Index: 2, Term: 4, Type: raft.LogNoop}}); err != nil {
		t.Fatal(err)
	}
	for want, row := range map[string]struct {
		term   uint64
		voters []id.NodeID
	}{
		"is not above the known 4": {4, []id.NodeID{"a"}},
		"a group needs one":        {5, nil},
	} {
		if err := m.Force(row.term, row.voters, 5, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", row, err)
		}
	}
	commands := slices.Repeat([]Command{{Header: []byte("x")}}, defaultMaxBatchCommands+1)
	if err := m.Force(6, []id.NodeID{"b"}, 5, commands); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m = openResting(t, dir)
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	got, err := m.Inspect()
	if err != nil || got.Term != 6 || got.LastTerm != 6 || got.LastIndex != 5 || !slices.Equal(got.Voters, []id.NodeID{"b"}) {
		t.Errorf("%+v, %v", got, err)
	}
	if !got.Newer(empty) || empty.Newer(got) || got.Newer(got) {
		t.Error("the longer log is the newer one")
	}
	if !(Stored{LastTerm: 2, LastIndex: 1}).Newer(Stored{LastTerm: 1, LastIndex: 9}) {
		t.Error("the later term is the newer one")
	}
	n := 0
	err = eachEntry(m.log, 0, func(l *raft.Log) error {
		if l.Type == raft.LogCommand {
			e, err := decodeEntry(7, l.Data)
			if err != nil || e.term != 6 {
				t.Errorf("entry %d: term %d, %v", l.Index, e.term, err)
			}
			n += e.commands
		}
		return nil
	})
	if err != nil || n != len(commands) {
		t.Errorf("%d commands, %v", n, err)
	}
}

// restOf opens a member that does not run, of a group in a shared log.
func restOf(t *testing.T, d vfs.Dir, dir string) (*Resting, *wal.Log) {
	t.Helper()
	l, err := wal.Open(d, wal.Config{SegmentBytes: 4096, SpaceInterval: -1, LowBytes: -1, FloorBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	g, err := l.Group(testGroup)
	if err != nil {
		t.Fatal(err)
	}
	m, err := OpenResting(testGroup, filepath.Join(dir, "snapshots"), g)
	if err != nil {
		t.Fatal(err)
	}
	return m, l
}

// A member stopped when it had the leader's snapshot and had not dropped its log yet. It is inspected and forced as it
// would start: by the snapshot alone. What is forced is there after a power cut.
func TestForceBehindASnapshotFromTheLeader(t *testing.T) {
	t.Parallel()
	stream := leaderStream(t)
	for _, c := range []installCase{{last: 10}, {last: 13, term: lostTerm}, {last: 25, term: lostTerm}, {last: 16, term: newTerm}} {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			d, dir := vfs.NewMem(), t.TempDir()
			before, err := openInstall(d, dir, lastCommon)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.prepare(before); err != nil {
				t.Fatal(err)
			}
			sink, err := before.create(20, newTerm)
			if err != nil {
				t.Fatal(err)
			}
			_, err = sink.Write(stream)
			if err := errors.Join(err, sink.Close(), before.log.Close()); err != nil {
				t.Fatal(err)
			}

			m, log := restOf(t, d, dir)
			has, err := m.Inspect()
			if err != nil || has.LastIndex != 20 || has.LastTerm != newTerm || !slices.Equal(has.Voters, []id.NodeID{"n1"}) {
				t.Errorf("%+v, %v", has, err)
			}
			if err := m.Force(newTerm+1, []id.NodeID{"n2"}, 5, nil); err != nil {
				t.Fatal(err)
			}
			crashed := d.Crash(vfs.LoseAll, nil)
			_ = errors.Join(m.Close(), log.Close()) // its disk is off
			after, err := openInstall(crashed, dir, 20)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = after.log.Close() }()
			var forced raft.Log
			if err := after.group.GetLog(21, &forced); err != nil || forced.Type != raft.LogConfiguration || forced.Term != newTerm+1 {
				t.Errorf("a start finds %+v behind the snapshot, %v", forced, err)
			}
			if err := after.check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// What Force writes is durable when it returns: the catalog is forced after the queues, and then nobody forces them again.
func TestForceWaitsForTheDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &tap{}
		m, log := restOf(t, lateDir{vfs.NewMem(), p.delay}, t.TempDir())
		defer func() { _ = log.Close() }()
		p.close()
		done := make(chan error, 1)
		go func() { done <- m.Force(1, []id.NodeID{"a"}, 5, nil) }()
		waits(t, "Force", done)
		p.release()
		comes(t, "Force", done)
	})
}
