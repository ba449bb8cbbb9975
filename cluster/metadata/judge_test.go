package metadata

import (
	"log/slog"
	"testing"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/id"
)

// RE-9: a node that another one has let in with its new store is not reported as refused by one that has not been
// called by it since. Its new store would be given up as well.
func TestJudgeForgetsWhoWasLetIn(t *testing.T) {
	c := catalog.New()
	j := NewJudge(c.View, &GivenUp{}, slog.New(slog.DiscardHandler))
	apply := func(index uint64, cmd catalog.Command) {
		t.Helper()
		if r := c.Apply(index, 0, cmd); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	knock := func(s id.StoreID) {
		t.Helper()
		if err := j.Refuses(transport.Peer{Node: "n", Store: s, Fresh: true}); err == nil {
			t.Fatalf("store %q is not refused", s)
		}
	}
	state := func(what string, refused, returned bool) {
		t.Helper()
		now := time.Now()
		k, knocks := j.Of("n", now)
		if back := j.Returned("n", now); knocks != refused || back != returned || knocks && !k.Fresh {
			t.Errorf("%s: knocks %v (%+v), returned %v", what, knocks, k, back)
		}
		if by := j.Refused()[refusedStore] == 1; by != refused {
			t.Errorf("%s: counted as refused: %v", what, by)
		}
		if _, knocks := j.Of("n", now.Add(knockAge+time.Minute)); knocks || j.Returned("n", now.Add(knockAge+time.Minute)) {
			t.Errorf("%s: a knock counts for ever", what)
		}
	}
	apply(1, &catalog.RaiseVersion{Version: catalog.VersionStores})
	apply(2, &catalog.RegisterNode{ID: "n", Epoch: 1, FirstEpoch: 1, Store: "old", Fresh: true})
	state("nobody came", false, false)
	knock("new")
	state("it came", true, false)
	apply(3, &catalog.ReplaceNode{ID: "n", Epoch: 1})
	state("it was given up", true, false)
	apply(4, &catalog.RegisterNode{ID: "n", Epoch: 2, FirstEpoch: 2, Store: "new", Fresh: true})
	state("another node let it in", false, true)
	knock("third")
	state("it lost its disk once more", true, false)
}
