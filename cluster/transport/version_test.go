package transport

import (
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// A node of an older build takes part until a version is finalised that it cannot read. From
// then on it is refused, whoever opens the connection, with what to do; others stay.
func TestOlderBuild(t *testing.T) {
	var finalised atomic.Uint32
	finalised.Store(1)
	newer := func(name string) Config {
		c := testConfig(name, 1)
		c.Reads, c.Finalised = 2, func() uint8 { return uint8(finalised.Load()) }
		return c
	}
	conf := newer("n1")
	conf.Calls = statusCalls{}
	a, b, old := start(t, conf), start(t, newer("n2")), start(t, testConfig("n3", 1))
	meet(a, b, old)
	connected(t, a, old)
	connected(t, old, a)
	connected(t, a, b)
	connected(t, old, b)
	b1, err := old.lookup("n1").connection()
	if err != nil {
		t.Fatal(err)
	}

	finalised.Store(2)
	a.Recheck()
	<-b1.detached
	for _, n := range []*node{a, old} {
		other := "n3"
		if n == old {
			other = "n1"
		}
		until(t, "the reason is told", func() bool {
			for _, p := range n.Stats().Peers {
				if string(p.Node) == other && strings.Contains(p.LastError,
					`node "n3" runs a build that reads version 1 of stored state, and version 2 is finalised in cluster "test": `+
						`start it with a newer build, that of node "n1" for example`) {
					return true
				}
			}
			return false
		})
		if _, up := n.Connected(id.NodeID(other)); up {
			t.Errorf("node %s is still connected to %s", n.config.Node, other)
		}
	}
	client, err := old.Client("n2") // it did not learn of the rise, but looks at each call
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.NodeStatus(t.Context(), &nodev1.NodeStatusRequest{}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a call of the older build: %v", err)
	}
	if _, up := a.Connected("n2"); !up || a.Stats().Peers[0].Connects != 1 {
		t.Errorf("the connection between newer builds: up %v, %+v", up, a.Stats().Peers[0])
	}
}
