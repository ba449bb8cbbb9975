package metadata

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// The steps of one node, with the answers of others made up: what it promises and when
// it lets go.
func TestPromises(t *testing.T) {
	status := func(founder string, round uint64, members ...string) *nodev1.NodeStatusResponse {
		return &nodev1.NodeStatusResponse{Founder: founder, FoundingRound: round, Founding: members}
	}
	g := func() *Group {
		dir, err := datadir.Open(t.TempDir(), "c", "b")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = dir.Close() })
		a, err := ReadAdmission(dir)
		if err != nil {
			t.Fatal(err)
		}
		return &Group{cfg: Config{Node: "b", Expect: 2, Dir: dir, Logger: slog.New(slog.DiscardHandler)}, admission: a}
	}
	t.Run("follows the founder that chose it", func(t *testing.T) {
		g := g()
		if err := g.follow(datadir.Promise{}, "a", status("a", 4, "a", "b")); err != nil {
			t.Fatal(err)
		}
		if p := g.admission.promise.Load(); p.Founder != "a" || p.Round != 4 || !slices.Equal(p.Members, []id.NodeID{"a", "b"}) {
			t.Errorf("promised %+v", p)
		}
		if !agrees(status("a", 4, "a", "b"), *g.admission.promise.Load()) {
			t.Error("does not agree with what it was promised to")
		}
		for _, s := range []*nodev1.NodeStatusResponse{status("a", 5, "a", "b"), status("a", 4, "a", "c"), status("", 4, "a", "b"), nil} {
			if agrees(s, *g.admission.promise.Load()) {
				t.Errorf("agrees with %v", s)
			}
		}
	})
	t.Run("does not follow who chose others", func(t *testing.T) {
		g := g()
		for _, s := range []*nodev1.NodeStatusResponse{status("a", 1, "a", "c"), status("", 0), status("c", 1, "b", "c")} {
			if err := g.follow(datadir.Promise{}, "a", s); err != nil {
				t.Fatal(err)
			}
			if p := g.admission.promise.Load(); p.Founder != "" {
				t.Errorf("promised %+v on %v", p, s)
			}
		}
	})
	t.Run("withdraws its own set for a smaller founder, with rounds that rise", func(t *testing.T) {
		g := g()
		if err := g.lead(datadir.Promise{}, []id.NodeID{"b", "c", "d"}, nil); err != nil {
			t.Fatal(err)
		}
		own := *g.admission.promise.Load()
		if own.Founder != "b" || own.Round != 1 || !slices.Equal(own.Members, []id.NodeID{"b", "c"}) {
			t.Fatalf("proposed %+v", own)
		}
		if err := g.follow(own, "a", status("", 0)); err != nil {
			t.Fatal(err)
		}
		if p := *g.admission.promise.Load(); p.Founder != "" || p.Proposals != 1 {
			t.Errorf("withdrew to %+v", p)
		}
		if err := g.lead(*g.admission.promise.Load(), []id.NodeID{"b", "c"}, nil); err != nil {
			t.Fatal(err)
		}
		stored, err := g.cfg.Dir.Promise()
		if err != nil || stored.Round != 2 || !slices.Equal(stored.Members, own.Members) {
			t.Errorf("proposed again %+v, %v", stored, err)
		}
	})
	t.Run("does not found before all have promised", func(t *testing.T) {
		g := g() // without a group: founding would fail the test
		own := datadir.Promise{Founder: "b", Round: 1, Members: []id.NodeID{"b", "c"}, Proposals: 1}
		for _, s := range []*nodev1.NodeStatusResponse{status("", 0), status("b", 2, "b", "c"), status("a", 1, "b", "c"), status("b", 1, "b", "d")} {
			if err := g.lead(own, own.Members, map[id.NodeID]*nodev1.NodeStatusResponse{"c": s}); err != nil {
				t.Fatal(err)
			}
		}
	})
}
