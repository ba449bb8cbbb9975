package client_test

import (
	"testing"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
)

// A caller that does not want to see what is done, or how far an operation is,
// can pass nil.
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
	summary, err := c.ImportDefinitions(t.Context(), client.ImportDefinitionsRequest{Document: document})
	if err != nil || summary.Created != 1 || summary.Unchanged != 1 {
		t.Errorf("%v, %v", summary, err)
	}
	job, err := c.RebalanceQueues(t.Context(), client.RebalanceQueuesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if end, err := c.WatchOperation(t.Context(), job.Operation.ID, nil); err != nil || end.State != client.OperationDone {
		t.Errorf("%v, %v", end, err)
	}
}
