package replica

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/datadir/sealed"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// A node stands in for the last leader of a hibernating queue when that one is not connected and a majority of the members
// is, and shows the queue unasked only if it is the first of these.
func TestStandsIn(t *testing.T) {
	t.Parallel()
	h := &Host{cfg: Config{Node: "a"}}
	for _, x := range []struct {
		name         string
		members, up  []id.NodeID
		may, unasked bool
	}{
		{"the leader is there", []id.NodeID{"a", "b", "l"}, []id.NodeID{"a", "b", "l"}, false, false},
		{"the leader is gone", []id.NodeID{"a", "b", "l"}, []id.NodeID{"a", "b"}, true, true},
		{"it was the first", []id.NodeID{"l", "a", "b"}, []id.NodeID{"a", "b"}, true, true},
		{"another is the first", []id.NodeID{"b", "a", "l"}, []id.NodeID{"a", "b"}, true, false},
		{"the first is gone too", []id.NodeID{"b", "a", "c", "d", "l"}, []id.NodeID{"a", "c", "d"}, true, true},
		{"nodes without a member do not count", []id.NodeID{"a", "b", "l"}, []id.NodeID{"a", "x", "y"}, false, false},
		{"half of the members", []id.NodeID{"a", "b", "c", "l"}, []id.NodeID{"a", "c"}, false, false},
		{"one of two", []id.NodeID{"a", "l"}, []id.NodeID{"a"}, false, false},
	} {
		up := map[id.NodeID]bool{}
		for _, n := range x.up {
			up[n] = true
		}
		may, unasked := h.standsIn(&catalog.QueueRecord{Members: x.members}, "l", up)
		if may != x.may || unasked != x.unasked {
			t.Errorf("%s: may %v, unasked %v; want %v, %v", x.name, may, unasked, x.may, x.unasked)
		}
	}
}

// What a node records of figures that another node shows comes back with its next start, but not as its own, also to an older
// build; and not so much is recorded that the file could not be read.
func TestSpareNotes(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, func(c *Config) { c.HibernateAfter = time.Hour })
	uid := h.declare("q")
	term, last, _ := h.storage.Ends(uid.Group())
	want := quorumq.Overview{Ready: 3, Now: 7, Config: quorumq.DefaultConfig()}
	want.ReadyByPriority[4] = 3
	text, err := json.Marshal(&want)
	if err != nil {
		t.Fatal(err)
	}
	hosts := func(do func(*Host)) {
		other := New(h.cfg)
		do(other)
		if err := other.Close(); err != nil { // writes its records
			t.Fatal(err)
		}
	}
	hosts(func(o *Host) {
		o.asleep[uid], o.unsaved = &asleep{leader: "b", spare: text, term: term, last: last}, true
	})
	hosts(func(o *Host) {
		a := o.asleep[uid]
		if a == nil || a.kept != nil || a.figures() == nil || *a.figures() != want || a.leader != "b" {
			t.Errorf("read %+v", a)
		}
	})
	const many = 20
	large, err := json.Marshal(strings.Repeat("x", maxSpareBytes/(many-2)))
	if err != nil {
		t.Fatal(err)
	}
	hosts(func(o *Host) {
		for i := range many {
			o.asleep[id.QueueUID(1000+i)] = &asleep{leader: "b", spare: large}
		}
		o.unsaved = true
	})
	r, err := sealed.ReadCopy(h.path, asleepFile, 0)
	if err != nil {
		t.Fatal(err)
	}
	records, spares := 0, 0
	for _, f := range r {
		var older struct {
			Figures *quorumq.Overview `json:"figures"`
		}
		if err := json.Unmarshal([]byte(f.Value), &older); err != nil || older.Figures != nil {
			t.Errorf("an older build reads %+v, %v", older.Figures, err)
		}
		_, a, err := readHibernationRecord(f)
		if err != nil {
			t.Fatal(err)
		}
		records++
		spares += len(a.spare)
	}
	if records != many+1 || spares > maxSpareBytes || spares < maxSpareBytes/2 {
		t.Errorf("%d records with %d bytes of figures, want %d with at most %d", records, spares, many+1, maxSpareBytes)
	}
}

// Figures that cannot be read are none.
func TestUnreadableSpare(t *testing.T) {
	t.Parallel()
	if o := (&asleep{spare: []byte(`{"Ready":"x"}`)}).figures(); o != nil {
		t.Errorf("%+v", o)
	}
}
