package cluster

import (
	"errors"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/id"
)

// CN-1: a queue that came and went between two views that the host has followed ends for
// those who use it.
func TestQueueThatCameAndWent(t *testing.T) {
	t.Parallel()
	catalogue := catalog.New()
	c := &Cluster{cfg: Config{Node: "a"}.withDefaults(), views: metadata.NewViews(catalogue.View())}
	c.gateway = newGateway(c)
	h := newHost(c)
	defer h.workers.close()
	apply := func(index uint64, cmd catalog.Command) {
		t.Helper()
		if err := catalogue.Apply(index, 0, cmd).Err; err != nil {
			t.Fatal(err)
		}
		c.views.Publish(catalogue.View())
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
