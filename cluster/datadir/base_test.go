package datadir

import (
	"errors"
	"testing"

	"github.com/quorate/quorate/cluster/datadir/sealed"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/raftfsm"
)

// A member's base survives with the change that the member is of. One that began without it has none.
func TestJoinedBase(t *testing.T) {
	d := openTestDir(t, t.TempDir())
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	want := raftfsm.Base{Term: 7, Index: 1 << 40}
	for q, base := range map[uint64]raftfsm.Base{2000: want, 2001: {}} {
		if err := d.SetJoined(id.QueueUID(q), 55, base); err != nil {
			t.Fatal(err)
		}
		if change, got, err := d.Joined(id.QueueUID(q)); err != nil || got != base || change != 55 {
			t.Errorf("base %+v, %v, change %d; want %+v", got, err, change, base)
		}
	}
	if change, got, err := d.Joined(id.QueueUID(2002)); err != nil || change != 0 || got != (raftfsm.Base{}) {
		t.Errorf("a queue that is not there is of change %d, with base %+v, %v", change, got, err)
	}
}

// A member whose file cannot be read is not one without the file: nobody knows by which change it joins.
func TestJoinedUnreadable(t *testing.T) {
	const q, change = id.QueueUID(2000), 55
	base := raftfsm.Base{Term: 7, Index: 9}
	torn := func(copies ...int) func(*testing.T, *Dir) {
		return func(t *testing.T, d *Dir) {
			t.Helper()
			for _, copyNo := range copies {
				harm(t, sealed.Path(d.Queue(q), joinedFile, copyNo), []byte("torn"))
			}
		}
	}
	holding := func(r sealed.Record) func(*testing.T, *Dir) {
		return func(t *testing.T, d *Dir) {
			t.Helper()
			if err := sealed.WriteTwice(d.Queue(q), joinedFile, r); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, row := range map[string]struct {
		spoil func(*testing.T, *Dir)
		known bool
	}{
		"no damage":                {torn(), true},
		"the first copy is torn":   {torn(0), true},
		"the second copy is torn":  {torn(1), true},
		"both copies are torn":     {torn(0, 1), false},
		"the change is no number":  {holding(sealed.Record{}.With(fieldChange, "x")), false},
		"the base's term is none":  {holding(sealed.Record{}.With(fieldChange, "55").With(fieldBaseTerm, "x").With(fieldBaseIndex, "1")), false},
		"the base has only a term": {holding(sealed.Record{}.With(fieldChange, "55").With(fieldBaseTerm, "7")), false},
	} {
		t.Run(name, func(t *testing.T) {
			d := openTestDir(t, t.TempDir())
			defer func() {
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			}()
			if err := d.SetJoined(q, change, base); err != nil {
				t.Fatal(err)
			}
			row.spoil(t, d)
			got, with, err := d.Joined(q)
			if row.known && (err != nil || got != change || with != base) {
				t.Errorf("change %d, base %+v, %v", got, with, err)
			}
			if !row.known && !errors.Is(err, sealed.ErrDamaged) {
				t.Errorf("change %d, base %+v, %v; want it damaged", got, with, err)
			}
		})
	}
}
