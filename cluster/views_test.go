package cluster

import (
	"testing"

	"github.com/quorate/quorate/catalog"
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
