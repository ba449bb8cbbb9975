package client

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// formerNode is a node of a release that knows no other rebalance than the one of everything, at once.
type formerNode struct {
	brokerv1.UnimplementedBrokerServer
	brokerv1.UnimplementedAdminServer
	started atomic.Int32
}

func (n *formerNode) RebalanceQueues(context.Context, *brokerv1.RebalanceQueuesRequest) (*brokerv1.StartOperationResponse, error) {
	n.started.Add(1)
	return &brokerv1.StartOperationResponse{Operation: &brokerv1.Operation{Id: "node-1.1.1", Node: "node-1"}}, nil
}

// Nothing moves on a node that knows no plan, or cannot move leaders alone: it refuses, and the error says what to do.
func TestRebalanceOnFormerNode(t *testing.T) {
	n := &formerNode{}
	c, err := New(Config{Addresses: []string{serve(t, n)}, FixedAddresses: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for _, r := range []RebalanceQueuesRequest{{DryRun: true}, {LeadersOnly: true}, {DryRun: true, LeadersOnly: true}} {
		out, err := c.RebalanceQueues(t.Context(), r)
		if ClassOf(err) != NotImplemented || !strings.Contains(err.Error(), "upgrade all nodes first") || out.Operation != nil {
			t.Errorf("%+v: %+v, %v", r, out, err)
		}
		if started := n.started.Swap(0); started > 0 {
			t.Errorf("%+v: %d rebalances were started", r, started)
		}
	}
	out, err := c.RebalanceQueues(t.Context(), RebalanceQueuesRequest{})
	if err != nil || out.Operation == nil || n.started.Load() != 1 {
		t.Errorf("%+v, %v, %d were started", out, err, n.started.Load())
	}
}
