package testcluster_test

import (
	"errors"
	"testing"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
)

// The figures of all queues are asked for again and again. Those that have not changed are not read anew; those that have
// changed are new.
func TestAllFiguresAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	t.Parallel()
	c := testcluster.Start(t, 3)
	cl := openClient(t, c)
	for _, name := range []string{"idle", "used"} {
		if _, err := cl.DeclareQueue(t.Context(), client.Queue{Name: name}); err != nil {
			t.Fatal(err)
		}
		testcluster.Poll(t, "node 0 leads "+name, func() error {
			if err := cl.TransferLeadership(t.Context(), client.TransferLeadershipRequest{Queue: name, Node: c.Name(0)}); err != nil {
				return err
			}
			q, err := cl.GetQueue(t.Context(), client.QueueRef{Name: name})
			if err == nil && q.Leader != c.Name(0) {
				err = errors.New(q.Leader)
			}
			return err
		})
	}
	asker := c.Cluster(2)
	idle, _ := asker.View().Queue("/", "idle")
	used, _ := asker.View().Queue("/", "used")
	before, err := asker.AllFigures(t.Context(), nil)
	if err != nil || len(before.Silent) > 0 || before.Queues[idle.UID] == nil || before.Queues[used.UID] == nil {
		t.Fatalf("%+v, %v", before, err)
	}
	if _, err := cl.PublishOne(t.Context(), client.Message{RoutingKey: "used"}); err != nil {
		t.Fatal(err)
	}
	after, err := asker.AllFigures(t.Context(), before)
	if err != nil || len(after.Silent) > 0 {
		t.Fatal(after.Silent, err)
	}
	if after.Queues[idle.UID] != before.Queues[idle.UID] {
		t.Error("the figures of a queue that nobody used were read anew")
	}
	if f := after.Queues[used.UID]; f == nil || f.Overview.Ready != 1 || before.Queues[used.UID].Overview.Ready != 0 {
		t.Errorf("the figures of a queue that was used: %+v", f)
	}
}
