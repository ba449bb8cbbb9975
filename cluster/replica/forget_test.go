package replica

import (
	"fmt"
	"slices"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// sources returns the queues that a queue remembers.
func (h *testHost) sources(uid id.QueueUID) (out []id.QueueUID) {
	h.Member(uid).Read(func(q *quorumq.Queue) { out = slices.Sorted(q.Sources()) })
	return out
}

// DL-25: a queue remembers the dead letters of others only while these are there: not of those that were deleted
// before the view in question, of which there are more than one command names, and yet of one that the view does not
// know, because it is from before its creation. Before the version of the command is finalised nothing is forgotten.
func TestForgetsDeletedSources(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	h.mustPropose(&catalog.RegisterNode{ID: "b", Address: "127.0.0.1:2", Epoch: 1, Store: "of b"})
	uid := h.declare("target")
	var gone []id.QueueUID
	for i := range maxForgotten + 1 {
		name := fmt.Sprint("source-", i)
		r := h.mustPropose(&catalog.DeclareQueue{VHost: "/", Name: name, Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"b"}, Leader: "b"})
		h.mustPropose(&catalog.DeleteQueue{VHost: "/", Name: name, UID: r.UID})
		gone = append(gone, r.UID)
	}
	there := h.mustPropose(&catalog.DeclareQueue{VHost: "/", Name: "there", Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"b"}, Leader: "b"}).UID
	v := h.views.View()
	later := h.mustPropose(&catalog.DeclareQueue{VHost: "/", Name: "later", Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"b"}, Leader: "b"}).UID
	for _, from := range append(slices.Clone(gone), there, later) {
		h.do(uid, &quorumq.Transfer{Source: from, Settled: 3})
	}
	h.forgetDeleted(v)
	h.poll("the queue forgets those that are gone", func() error {
		if got := h.sources(uid); !slices.Equal(got, []id.QueueUID{there, later}) {
			return fmt.Errorf("it remembers %d: %d", len(got), got[:min(len(got), 5)])
		}
		return nil
	})
}

// Members of an older build cannot read the command.
func TestForgetsNothingByOlderRules(t *testing.T) {
	t.Parallel()
	h := &testHost{t: t, path: t.TempDir(), catalog: catalog.New()}
	h.views = metadata.NewViews(h.catalog.View())
	h.start(nil)
	h.mustPropose(&catalog.RegisterNode{ID: "a", Address: "127.0.0.1:1", Epoch: h.cfg.Epoch})
	h.mustPropose(&catalog.RegisterNode{ID: "b", Address: "127.0.0.1:2", Epoch: 1})
	uid := h.declare("target")
	from := h.mustPropose(&catalog.DeclareQueue{VHost: "/", Name: "source", Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"b"}, Leader: "b"}).UID
	h.mustPropose(&catalog.DeleteQueue{VHost: "/", Name: "source"})
	h.do(uid, &quorumq.Transfer{Source: from, Settled: 3})
	m := h.Member(uid)
	last := m.group.Stats().LastIndex
	h.turn(uid, func() { m.forgetDeleted(h.views.View()) })
	h.do(uid, &quorumq.Expire{})
	if got := m.group.Stats().LastIndex; got != last+1 || !slices.Equal(h.sources(uid), []id.QueueUID{from}) {
		t.Errorf("the log ends at %d, want %d; it remembers %d", got, last+1, h.sources(uid))
	}
}
