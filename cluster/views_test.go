package cluster

import (
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/raftfsm"
)

// EX-15: what a node has seen of the catalog it goes on seeing, although a snapshot that is
// installed may be older.
func TestViewsNeverGoBack(t *testing.T) {
	c := catalog.New()
	s := newViews(c.View())
	m := &catalogMachine{catalog: c, views: s}
	old := m.Freeze().AppendSnapshot(nil)
	c.Apply(7, 0, &catalog.RegisterNode{ID: "a", Epoch: 1})
	s.publish(c.View())
	changed := s.next()
	if err := m.Restore(old); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.view.Load().Node("a"); !ok {
		t.Error("a node that was seen is gone")
	}
	select {
	case <-changed:
		t.Error("an older view was told as a change")
	default:
	}
	c.Apply(8, 0, &catalog.RegisterNode{ID: "b", Epoch: 1})
	s.publish(c.View())
	if got := s.view.Load().Index(); got != 8 {
		t.Errorf("the view is at %d, want the newer one at 8", got)
	}
}

// EX-15: a view of an index has all that the entry of the index did, for somebody may wait
// for the last of its commands.
func TestViewsAreWhole(t *testing.T) {
	s := newViews(catalog.New().View())
	m := &catalogMachine{catalog: catalog.New(), views: s}
	apply := func(cmd catalog.Command, more bool) {
		if r, _ := m.Apply(raftfsm.Meta{Index: 7, More: more}, catalog.AppendCommand(nil, cmd), 0); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	apply(&catalog.RegisterNode{ID: "a", Epoch: 1}, true)
	if got := s.view.Load().Index(); got != 0 {
		t.Errorf("the view is at %d within the entry", got)
	}
	apply(&catalog.RegisterNode{ID: "b", Epoch: 1}, false)
	if v := s.view.Load(); v.Index() != 7 || v.NodeCount() != 2 {
		t.Errorf("the view is at %d with %d nodes after the entry, want 7 and 2", v.Index(), v.NodeCount())
	}
	m.Apply(raftfsm.Meta{Index: 8, More: true}, catalog.AppendCommand(nil, &catalog.RegisterNode{ID: "c", Epoch: 1}), 0)
	m.Apply(raftfsm.Meta{Index: 8}, []byte("of another build"), 0)
	if v := s.view.Load(); v.Index() != 8 || v.NodeCount() != 3 {
		t.Errorf("the view is at %d with %d nodes after an entry that ends with what cannot be read, want 8 and 3", v.Index(), v.NodeCount())
	}
}
