package testcluster_test

import (
	"fmt"
	"testing"

	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/gossip"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/testcluster"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// With TLS between the nodes all is as without: queues are made and replicated, messages
// reach consumers at any node, and a killed node comes back.
func TestTLSBetweenNodes(t *testing.T) {
	t.Parallel()
	c := testcluster.StartTLS(t, 3)
	peers := make([]peer, 0, 3)
	for _, addr := range c.Addrs() {
		p := dial(t, addr)
		p.all = &peers
		peers = append(peers, p)
	}
	peers[0].declare(t, "q")
	peers[1].publish(t, "q", 100)
	c.Kill(0)
	peers[2].publish(t, "q", 100)
	c.Restart(0)
	again := dial(t, c.Addrs()[0])
	again.publish(t, "q", 100)
	again.consume(t, "q", 300, brokerv1.Outcome_OUTCOME_ACK)
}

// With TLS between the nodes nobody is alive by gossip alone, under a name of its own or that of
// a node that is down: only a link that a certificate has opened says so.
func TestGossipWithoutCertificate(t *testing.T) {
	t.Parallel()
	c := testcluster.StartTLS(t, 3)
	status := func(name string) (n cluster.NodeStatus, known bool) {
		t.Helper()
		s, err := c.Cluster(0).Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range s.Nodes {
			if string(n.ID) == name {
				return n, true
			}
		}
		return n, false
	}
	other, _ := status(c.Name(1))
	if !other.Alive || !other.Connected {
		t.Errorf("a node with its certificate: %+v", other)
	}
	down := c.Name(2)
	before, _ := status(down)
	c.Kill(2)
	for _, name := range []string{"outsider", down} {
		m, err := gossip.Start(gossip.Config{
			Cluster: "test", BindAddr: "127.0.0.1:0", Join: []string{other.GossipAddr},
			Node: gossip.Node{
				ID: id.NodeID(name), Epoch: before.Epoch + 1, Store: before.Store, PeerAddr: "127.0.0.1:1", ClientAddr: "127.0.0.1:2", Version: "impostor",
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		testcluster.Poll(t, "gossip has "+name, func() error {
			if n, known := status(name); !known || n.Version != "impostor" {
				return fmt.Errorf("%+v", n)
			}
			return nil
		})
		if n, _ := status(name); n.Alive || n.Connected {
			t.Errorf("%s is shown as alive: %+v", name, n)
		}
		if err := m.Leave(t.Context()); err != nil {
			t.Error(err)
		}
	}
	c.Restart(2)
	testcluster.Poll(t, "the real node is alive", func() error {
		if n, _ := status(down); !n.Alive || !n.Connected || n.Version == "impostor" {
			return fmt.Errorf("%+v", n)
		}
		return nil
	})
}
