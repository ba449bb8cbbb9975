package cluster

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/id"
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
		if r, _, _ := m.Apply(raftfsm.Meta{Index: 7, More: more}, catalog.AppendCommand(nil, cmd), 0); r.Err != nil {
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
	_, _, _ = m.Apply(raftfsm.Meta{Index: 8, More: true}, catalog.AppendCommand(nil, &catalog.RegisterNode{ID: "c", Epoch: 1}), 0)
	if _, _, err := m.Apply(raftfsm.Meta{Index: 8}, []byte("of another build"), 0); !errors.Is(err, raftfsm.ErrUnreadable) {
		t.Errorf("what cannot be read was answered with error %v", err)
	}
	if v := s.view.Load(); v.Index() != 7 || v.NodeCount() != 2 {
		t.Errorf("the view is at %d with %d nodes after an entry that ends with what cannot be read, want 7 and 2", v.Index(), v.NodeCount())
	}
}

// CN-1: a queue that came and went between two views that the host has followed ends for
// those who use it.
func TestQueueThatCameAndWent(t *testing.T) {
	t.Parallel()
	catalogue := catalog.New()
	c := &Cluster{cfg: Config{Node: "a"}.withDefaults(), views: newViews(catalogue.View())}
	c.gateway = newGateway(c)
	h := newHost(c)
	defer h.workers.close()
	apply := func(index uint64, cmd catalog.Command) {
		t.Helper()
		if err := catalogue.Apply(index, 0, cmd).Err; err != nil {
			t.Fatal(err)
		}
		c.views.publish(catalogue.View())
	}
	apply(1, &catalog.RegisterNode{ID: "a", Epoch: 1})
	declare := func(index uint64, name string) (id.QueueUID, *Queue) {
		t.Helper()
		apply(index, &catalog.DeclareQueue{VHost: "/", Name: name, Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"a"}, Leader: "a"})
		r, _ := c.View().Queue("/", name)
		q, err := c.Queue(r.UID)
		if err != nil {
			t.Fatal(err)
		}
		return r.UID, q
	}
	followed := c.View()
	short, ended := declare(2, "short")
	_, kept := declare(3, "kept")
	apply(4, &catalog.DeleteQueue{VHost: "/", Name: "short"})

	if _, err := c.Queue(short); !errors.Is(err, ErrNoSuchQueue) {
		t.Errorf("opened after it was deleted: %v", err)
	}
	for _, v := range []*catalog.View{followed, c.View()} {
		h.compare(v)
	}
	for _, q := range []struct {
		*Queue
		gone bool
	}{{ended, true}, {kept, false}} {
		q.mu.Lock()
		if gone := errors.Is(q.ended, ErrNoSuchQueue); gone != q.gone {
			t.Errorf("queue %s: ended %v (%v), want %v", q.uid, gone, q.ended, q.gone)
		}
		q.mu.Unlock()
	}
	if len(c.gateway.young) != 0 {
		t.Errorf("%d queues are never forgotten as young", len(c.gateway.young))
	}
}

// ST-5: commands that share an entry have one index, and each has its event.
func TestEventsOfOneEntry(t *testing.T) {
	m := &catalogMachine{catalog: catalog.New(), views: newViews(catalog.New().View())}
	m.events = &happenings{c: &Cluster{log: slog.New(slog.DiscardHandler)}, started: func() int64 { return 0 }, catalog: event.NewLog(0), queues: event.NewLog(0)}
	for i, name := range []string{"a", "b", "c"} {
		_, _, _ = m.Apply(raftfsm.Meta{Index: 7, More: i < 2}, catalog.AppendCommand(nil, &catalog.PutVHost{
			VHost: catalog.VHost{Name: name, DefaultQueueType: catalog.QueueQuorum},
		}), 0)
		want := 0
		if i == 2 {
			want = 3
		}
		if got := m.events.catalog.Read(0, 1); len(got) != want {
			t.Errorf("after %s: %d events, want %d", name, len(got), want)
		}
	}
}
