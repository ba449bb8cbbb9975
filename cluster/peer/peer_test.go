package peer

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Ask asks all others at once: who has no connection, and who does not answer, is named as silent; what
// the answers are taken for is joined.
func TestAsk(t *testing.T) {
	c := catalog.New()
	for i, n := range []id.NodeID{"a", "b", "c", "d", "e"} {
		c.Apply(uint64(i+1), 0, &catalog.RegisterNode{ID: n, Epoch: 1})
	}
	away, refused := errors.New("no link"), errors.New("cannot be read")
	p := Peers{
		Node: "a", View: c.View, Life: t.Context(),
		Client: func(n id.NodeID) (nodev1.NodeClient, error) {
			if n == "b" {
				return nil, away
			}
			return nil, nil
		},
	}
	all := make(chan struct{})
	asked := make(chan id.NodeID, 3)
	go func() {
		for range 3 { // none is answered before all were asked
			<-asked
		}
		close(all)
	}()
	var answered, silent []id.NodeID
	err := p.Ask(t.Context(), func(_ context.Context, n id.NodeID, _ nodev1.NodeClient) (func() error, error) {
		asked <- n
		<-all
		if n == "c" {
			return nil, away
		}
		return func() error {
			if answered = append(answered, n); n == "d" {
				return refused
			}
			return nil
		}, nil
	}, func(n id.NodeID) { silent = append(silent, n) })
	slices.Sort(answered)
	slices.Sort(silent)
	if !errors.Is(err, refused) || !slices.Equal(answered, []id.NodeID{"d", "e"}) || !slices.Equal(silent, []id.NodeID{"b", "c"}) {
		t.Errorf("answered %q, silent %q, %v", answered, silent, err)
	}
	if there := Each([]id.NodeID{"d", "c", "e"}, func(n id.NodeID) bool { return n != "c" }); !slices.Equal(there, []id.NodeID{"d", "e"}) {
		t.Errorf("those are %q", there)
	}
}
