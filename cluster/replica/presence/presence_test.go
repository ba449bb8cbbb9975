package presence

import (
	"testing"

	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/id"
)

// What a host knows of a peer: a newer epoch counts more than a connection of an older one, and of
// two connections the newer one counts.
func TestNodes(t *testing.T) {
	p := New("self", 7)
	if got := p.Of("self"); got != (State{Epoch: 7, Up: true}) {
		t.Errorf("self %+v", got)
	}
	at := func(e id.Epoch) transport.Peer { return transport.Peer{Node: "p", Epoch: e} }
	step := func(what string, changed, wantChanged bool, want State) {
		t.Helper()
		if changed != wantChanged || p.Of("p") != want {
			t.Errorf("%s: changed %v, %+v", what, changed, p.Of("p"))
		}
	}
	step("unknown", false, false, State{})
	step("up", p.Inbound(at(1), true), true, State{Epoch: 1, Up: true})
	step("old news", p.Heard("p", 1), false, State{Epoch: 1, Up: true})
	step("new life", p.Heard("p", 2), true, State{Epoch: 2})
	step("old link goes", p.Inbound(at(1), false), false, State{Epoch: 2})
	step("new link", p.Inbound(at(2), true), true, State{Epoch: 2, Up: true})
	step("down", p.Inbound(at(2), false), true, State{Epoch: 2})
	step("silent while down", p.Answers("p", false), false, State{Epoch: 2})
	step("up, and silent", p.Inbound(at(2), true), false, State{Epoch: 2})
	step("nothing listens, by an old word", p.HasEnded("p"), false, State{Epoch: 2})
	step("it answers", p.Answers("p", true), true, State{Epoch: 2, Up: true})
	step("down again", p.Inbound(at(2), false), true, State{Epoch: 2})
	step("nothing listens", p.HasEnded("p"), true, State{Epoch: 2, Ended: true})
	step("nothing listens still", p.HasEnded("p"), false, State{Epoch: 2, Ended: true})
	step("it lives all the same", p.Inbound(at(2), true), true, State{Epoch: 2, Up: true})
	step("newer link before the catalog", p.Inbound(at(3), true), true, State{Epoch: 3, Up: true})
}
