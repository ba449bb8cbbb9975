package metadata

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/raftfsm"
)

// EX-15: what a node has seen of the catalog it keeps seeing, although a snapshot that is installed may be older.
func TestViewsNeverGoBack(t *testing.T) {
	c := catalog.New()
	s := NewViews(c.View())
	m := NewMachine(s, noJournal{}, func() {})
	old := m.Freeze().AppendSnapshot(nil)
	c.Apply(7, 0, &catalog.RegisterNode{ID: "a", Epoch: 1})
	s.Publish(c.View())
	changed := s.Next()
	if err := m.Restore(old); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.View().Node("a"); !ok {
		t.Error("a node that was seen is gone")
	}
	select {
	case <-changed:
		t.Error("an older view was told as a change")
	default:
	}
	c.Apply(8, 0, &catalog.RegisterNode{ID: "b", Epoch: 1})
	s.Publish(c.View())
	if got := s.View().Index(); got != 8 {
		t.Errorf("the view is at %d, want the newer one at 8", got)
	}
}

// EX-15: a view of an index has all that the entry of the index did, for somebody may wait
// for the last of its commands.
func TestViewsAreWhole(t *testing.T) {
	s := NewViews(catalog.New().View())
	m := NewMachine(s, noJournal{}, func() {})
	apply := func(cmd catalog.Command, more bool) {
		if r, _, _ := m.Apply(raftfsm.Meta{Index: 7, More: more}, catalog.AppendCommand(nil, cmd), 0); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	apply(&catalog.RegisterNode{ID: "a", Epoch: 1}, true)
	if got := s.View().Index(); got != 0 {
		t.Errorf("the view is at %d within the entry", got)
	}
	apply(&catalog.RegisterNode{ID: "b", Epoch: 1}, false)
	if v := s.View(); v.Index() != 7 || v.NodeCount() != 2 {
		t.Errorf("the view is at %d with %d nodes after the entry, want 7 and 2", v.Index(), v.NodeCount())
	}
	_, _, _ = m.Apply(raftfsm.Meta{Index: 8, More: true}, catalog.AppendCommand(nil, &catalog.RegisterNode{ID: "c", Epoch: 1}), 0)
	if _, _, err := m.Apply(raftfsm.Meta{Index: 8}, []byte("of another build"), 0); !errors.Is(err, raftfsm.ErrUnreadable) {
		t.Errorf("what cannot be read was answered with error %v", err)
	}
	if v := s.View(); v.Index() != 7 || v.NodeCount() != 2 {
		t.Errorf("the view is at %d with %d nodes after an entry that ends with what cannot be read, want 7 and 2", v.Index(), v.NodeCount())
	}
}

// ST-5: commands that share an entry have one index, and each has its event.
func TestEventsOfOneEntry(t *testing.T) {
	zero := func() int64 { return 0 }
	events := event.NewJournal(event.JournalConfig{Logger: slog.New(slog.DiscardHandler), NowMs: zero, StartedMs: zero})
	m := NewMachine(NewViews(catalog.New().View()), events, func() {})
	for i, name := range []string{"a", "b", "c"} {
		_, _, _ = m.Apply(raftfsm.Meta{Index: 7, More: i < 2}, catalog.AppendCommand(nil, &catalog.PutVHost{
			VHost: catalog.VHost{Name: name, DefaultQueueType: catalog.QueueQuorum, VHostLimits: catalog.NoVHostLimits()},
		}), 0)
		want := 0
		if i == 2 {
			want = 3
		}
		if got := events.Catalog().Read(0, 1); len(got) != want {
			t.Errorf("after %s: %d events, want %d", name, len(got), want)
		}
	}
}
