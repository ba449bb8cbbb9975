package raftfsm

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
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
