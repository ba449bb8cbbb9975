package datadir

import (
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/datadir/sealed"
	"github.com/quorate/quorate/raftfsm"
)

// RE-9: a directory from before stores had names gets one, durably, and is admitted if it has
// state; one copy of the file that knows less never counts.
func TestStoreOnDisk(t *testing.T) {
	path := t.TempDir()
	before := time.Now()
	d := openTestDir(t, path)
	first := d.store
	if first.Name == "" || first.Admitted || first.First < epochAt(before.Add(-time.Minute)) {
		t.Fatalf("a new directory has store %+v", first)
	}
	e, err := d.NextEpoch(slog.New(slog.DiscardHandler))
	if err != nil || e != first.First {
		t.Errorf("first epoch %d, %v; want %d", e, err, first.First)
	}
	if err := errors.Join(d.BeginCatalog(77, raftfsm.Base{Term: 5, Index: 80}), d.Deny(), d.Close()); err != nil {
		t.Fatal(err)
	}
	harm(t, sealed.Path(path, nodeFile, 0), nil)
	d = openTestDir(t, path)
	want := Store{Name: first.Name, First: first.First, Admitted: true, Began: 77, Base: raftfsm.Base{Term: 5, Index: 80}, Denied: true}
	if d.store != want {
		t.Errorf("store %+v, want %+v", d.store, want)
	}
	if r, err := sealed.ReadCopy(path, nodeFile, 0); err != nil || r.Get(fieldStore) != string(first.Name) {
		t.Errorf("the torn copy was not written again: %v, %v", r, err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	// As before stores had names, in both copies and in one.
	for _, copies := range [][]int{{0, 1}, {1}} {
		for _, copyNo := range copies {
			if err := sealed.Write(path, nodeFile, copyNo, sealed.Record{}.With(fieldCluster, "c").With(fieldNode, "n")); err != nil {
				t.Fatal(err)
			}
		}
		named := d.store.Name
		d = openTestDir(t, path)
		if d.store.Name == "" || len(copies) == 1 && d.store.Name != named || len(copies) == 2 && (d.store.Admitted || d.store.Name == named) {
			t.Errorf("copies %v: store %+v after %q", copies, d.store, named)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A mark is the newest that is whole; a torn one leaves the one before.
func TestMarkOnDisk(t *testing.T) {
	d := openTestDir(t, t.TempDir())
	if m := readMark(d.path); m != (Mark{}) {
		t.Errorf("mark %+v in a new directory", m)
	}
	var last Mark
	for i := range uint64(5) {
		last = Mark{number: i + 1}
		last.Log.Log, last.Log.Segment, last.Log.Offset = 1<<63, uint32(i), 1<<31
		last.Catalog.Term, last.Catalog.Last = i, i*100
		if err := last.write(d.path); err != nil {
			t.Fatal(err)
		}
		if m := readMark(d.path); m != last {
			t.Errorf("mark %+v, want %+v", m, last)
		}
	}
	torn := sealed.Path(d.path, markFile, int(last.number%2))
	if err := os.Truncate(torn, 30); err != nil {
		t.Fatal(err)
	}
	if m := readMark(d.path); m.number != last.number-1 {
		t.Errorf("mark %+v beside a torn one", m)
	}
}
