package client_test

import (
	"testing"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// Who does not want to see what is done, or how far a job is, need not.
func TestSeenIsNil(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a node: not in short mode")
	}
	cluster := testcluster.Start(t, 1)
	c, err := client.Dial(t.Context(), client.Config{Addresses: cluster.Addrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	document := []byte(`{"vhosts": [{"name": "/"}, {"name": "other"}]}`)
	summary, err := c.ImportDefinitions(t.Context(), document, nil, nil)
	if err != nil || summary.GetCreated() != 1 || summary.GetUnchanged() != 1 {
		t.Errorf("%v, %v", summary, err)
	}
	job, err := c.RebalanceQueues(t.Context(), &brokerv1.RebalanceQueuesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if end, err := c.WatchOperation(t.Context(), job.GetOperation().GetId(), nil); err != nil || end.GetState() != brokerv1.OperationState_OPERATION_STATE_DONE {
		t.Errorf("%v, %v", end, err)
	}
}
