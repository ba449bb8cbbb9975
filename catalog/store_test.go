package catalog_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
)

// RE-9: who is talked to. What a handshake shows is judged by the view alone.
func TestRefuses(t *testing.T) {
	c := catalog.New()
	for i, cmd := range []catalog.Command{
		&catalog.RegisterNode{ID: "early", Epoch: 5},
		&catalog.RaiseVersion{Version: catalog.VersionStores},
		&catalog.RegisterNode{ID: "known", Epoch: 10, Store: "k"},
		&catalog.RegisterNode{ID: "vacant", Epoch: 10, Store: "v"},
		&catalog.ReplaceNode{ID: "vacant", Epoch: 10},
		&catalog.RegisterNode{ID: "gone", Epoch: 10, Store: "g"},
		&catalog.ForgetNode{ID: "gone"},
		&catalog.RegisterNode{ID: "back", Epoch: 10, Store: "b"},
		&catalog.ForgetNode{ID: "back"},
		&catalog.RegisterNode{ID: "back", Epoch: 11, Store: "b2", Fresh: true, FirstEpoch: 11},
	} {
		if r := c.Apply(uint64(i+1), 0, cmd); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	for _, x := range []struct {
		node  id.NodeID
		store id.StoreID
		fresh bool
		want  string // part of the text; "": it is talked to
	}{
		{"early", "", false, ""},
		{"early", "e", false, ""},
		{"early", "e", true, ""},
		{"known", "k", false, ""},
		{"known", "k", true, ""},
		{"known", "x", true, "nodes replace known"},
		{"known", "x", false, `comes with store "x", but the cluster knows it with store "k"`},
		{"known", "", false, "does not say which store"},
		{"vacant", "x", true, ""},
		{"vacant", "x", false, "was replaced and never comes back"},
		{"vacant", "v", false, "was replaced and never comes back"},
		{"vacant", "v", true, "was replaced and never comes back"},
		{"vacant", "", false, "does not say which store"},
		{"gone", "x", true, ""},
		{"gone", "x", false, "was taken out of the cluster"},
		{"gone", "g", false, "was taken out of the cluster"},
		{"gone", "g", true, "was taken out of the cluster"},
		{"gone", "", false, "was taken out of the cluster"},
		{"back", "b2", false, ""},
		{"back", "b", false, "nodes replace back"},
		{"new", "n", true, ""},
		{"new", "n", false, ""},
		{"new", "", false, ""},
	} {
		got := c.View().Refuses(x.node, x.store, x.fresh)
		if (got == "") != (x.want == "") || !strings.Contains(got, x.want) {
			t.Errorf("node %q, store %q, fresh %v: %q, want %q", x.node, x.store, x.fresh, got, x.want)
		}
	}
}

// RE-9: a queue's founders are known to a catalog that has applied the declaration, whatever changed since, and not if the
// queue is older than what is asked for.
func TestFoundersSince(t *testing.T) {
	members := []id.NodeID{"a", "b", "c"}
	c := catalog.New()
	index := uint64(0)
	for _, cmd := range []catalog.Command{
		&catalog.RegisterNode{ID: "a", Epoch: 5},
		&catalog.RaiseVersion{Version: catalog.VersionStores},
		&catalog.RegisterNode{ID: "b", Epoch: 5, Store: "b"},
		&catalog.RegisterNode{ID: "c", Epoch: 5, Store: "c"},
		&catalog.DeclareQueue{VHost: "/", Name: "q", Type: catalog.QueueQuorum, Durable: true, Members: members, Leader: "a"},
		&catalog.ReplaceNode{ID: "c", Epoch: 5},
	} {
		index++
		if r := c.Apply(index, 0, cmd); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	q, _ := c.View().Queue("/", "q")
	if q.Changed != index {
		t.Fatalf("%+v", q)
	}
	if got := q.FoundersSince(index - 2); !slices.Equal(got, members) {
		t.Errorf("founders %q", got)
	}
	if got := q.FoundersSince(index - 1); got != nil {
		t.Errorf("founders %q of a queue that is not younger", got)
	}
}
