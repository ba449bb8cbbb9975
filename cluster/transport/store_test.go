package transport

import (
	"errors"
	"sync"
	"testing"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// storeGate refuses one store, once it is set, and keeps whom it has judged.
type storeGate struct {
	mu     sync.Mutex
	closed id.StoreID
	seen   map[Peer]bool
}

func (g *storeGate) judge(p Peer) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.seen == nil {
		g.seen = map[Peer]bool{}
	}
	g.seen[p] = true
	if g.closed != "" && p.Store == g.closed {
		return errors.New("that store was given up")
	}
	return nil
}

func (g *storeGate) close(s id.StoreID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = s
}

func (g *storeGate) saw(p Peer) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen[p]
}

// total are those that a node reported.
type total struct {
	mu  sync.Mutex
	all map[id.NodeID]string
}

func (r *total) report(by id.NodeID, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[id.NodeID]string{}
	}
	r.all[by] = why
}

func (r *total) by(n id.NodeID) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[n]
}

// Both ends of a connection show their stores, and whether these are fresh, and each judges the other
// (RE-9). One that is given up meanwhile loses its connections in both directions, learns why, and is
// let in again without a restart of anybody.
func TestStoresInHandshakes(t *testing.T) {
	var gate1, gate2 storeGate
	var refused total
	conf1, conf2 := testConfig("n1", 1), testConfig("n2", 1)
	conf1.Store, conf1.Fresh, conf1.Refused, conf1.Refuse = "s1", func() bool { return true }, refused.report, gate1.judge
	conf2.Store, conf2.Refuse, conf2.Calls = "s2", gate2.judge, statusCalls{}
	conf1.Calls = statusCalls{}
	a, b := start(t, conf1), start(t, conf2)
	meet(a, b)
	connected(t, a, b)
	connected(t, b, a)
	for _, c := range []struct {
		at  *storeGate
		has Peer
	}{
		{&gate1, Peer{Node: "n2", Epoch: 1, Store: "s2"}},
		{&gate2, Peer{Node: "n1", Epoch: 1, Store: "s1", Fresh: true}},
	} {
		if !c.at.saw(c.has) {
			t.Errorf("nobody has judged %+v, but %+v", c.has, c.at.seen)
		}
	}

	gate2.close("s1")
	b.Recheck()
	for _, pair := range [][2]*node{{a, b}, {b, a}} {
		until(t, "the connections end in both directions", func() bool {
			_, up := pair[0].Connected(pair[1].config.Node)
			return !up
		})
	}
	until(t, "the reason is told", func() bool { return refused.by("n2") == "that store was given up" })
	client, err := a.Client("n2")
	if err == nil {
		_, err = client.NodeStatus(t.Context(), &nodev1.NodeStatusRequest{})
	}
	if err == nil {
		t.Error("a call of the node that was given up is answered")
	}
	if _, err := b.identity.check(metadata.New(a.identity.values())); status.Code(err) != refusedStore {
		t.Errorf("each call of the node that was given up must be refused for its store, was: %v", err)
	}

	gate2.close("")
	connected(t, a, b)
	connected(t, b, a)
}

// A node of a build that knows no stores shows none, and is judged as such.
func TestNodeWithoutStore(t *testing.T) {
	var g storeGate
	conf := testConfig("n1", 1)
	conf.Store, conf.Refuse = "s1", g.judge
	a, old := start(t, conf), start(t, testConfig("n2", 1))
	meet(a, old)
	connected(t, a, old)
	connected(t, old, a)
	if !g.saw(Peer{Node: "n2", Epoch: 1}) {
		t.Errorf("judged %+v", g.seen)
	}
}
