package gateway

import (
	"errors"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
)

// CN-1: a queue that was declared and deleted between two views that the host followed ends for its
// users.
func TestQueueThatCameAndWent(t *testing.T) {
	t.Parallel()
	catalogue := catalog.New()
	views := metadata.NewViews(catalogue.View())
	g := New(Config{Node: "a", Views: views})
	apply := func(index uint64, cmd catalog.Command) {
		t.Helper()
		if err := catalogue.Apply(index, 0, cmd).Err; err != nil {
			t.Fatal(err)
		}
		views.Publish(catalogue.View())
	}
	apply(1, &catalog.RegisterNode{ID: "a", Epoch: 1})
	declare := func(index uint64, name string) (id.QueueUID, *Queue) {
		t.Helper()
		apply(index, &catalog.DeclareQueue{VHost: "/", Name: name, Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"a"}, Leader: "a"})
		r, _ := views.View().Queue("/", name)
		q, err := g.Queue(r.UID)
		if err != nil {
			t.Fatal(err)
		}
		return r.UID, q
	}
	followed := views.View()
	short, ended := declare(2, "short")
	_, kept := declare(3, "kept")
	apply(4, &catalog.DeleteQueue{VHost: "/", Name: "short"})

	if _, err := g.Queue(short); !errors.Is(err, traffic.ErrNoSuchQueue) {
		t.Errorf("opened after it was deleted: %v", err)
	}
	for _, v := range []*catalog.View{followed, views.View()} {
		g.Followed(v)
	}
	for _, q := range []struct {
		*Queue
		gone bool
	}{{ended, true}, {kept, false}} {
		q.mu.Lock()
		if gone := errors.Is(q.ended, traffic.ErrNoSuchQueue); gone != q.gone {
			t.Errorf("queue %s: ended %v (%v), want %v", q.uid, gone, q.ended, q.gone)
		}
		q.mu.Unlock()
	}
	if len(g.young) != 0 {
		t.Errorf("%d queues are never forgotten as young", len(g.young))
	}
}
