package testcluster_test

import (
	"testing"

	"github.com/quorate/quorate/internal/testcluster"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// With TLS between the nodes all is as without: queues are made and replicated, messages
// reach consumers at any node, and a killed node comes back.
func TestTLSBetweenNodes(t *testing.T) {
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
