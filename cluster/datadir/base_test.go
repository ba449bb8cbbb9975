package datadir

import (
	"testing"

	"github.com/quorate/quorate/cluster/datadir/sealed"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/raftfsm"
)

// A member's base survives with the change that the member is of. One that began without it has none, and what cannot be
// read is no base.
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
		if got, err := d.JoinedBase(id.QueueUID(q)); err != nil || got != base || d.Joined(id.QueueUID(q)) != 55 {
			t.Errorf("base %+v, %v, change %d; want %+v", got, err, d.Joined(id.QueueUID(q)), base)
		}
	}
	if got, err := d.JoinedBase(id.QueueUID(2002)); err != nil || got != (raftfsm.Base{}) {
		t.Errorf("a queue that is not there has base %+v, %v", got, err)
	}
	for copyNo := range sealed.Copies {
		bad := sealed.Record{}.With(fieldChange, "55").With(fieldBaseTerm, "x").With(fieldBaseIndex, "1")
		if err := sealed.Write(d.Queue(id.QueueUID(2000)), joinedFile, copyNo, bad); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := d.JoinedBase(id.QueueUID(2000)); err == nil {
		t.Errorf("a base that cannot be read is %+v", got)
	}
}
