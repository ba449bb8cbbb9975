package testcluster_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/quorate/quorate/client"
)

// AU-1, Q-15: each queue that is deleted if it is empty leaves one record of the user who asked for that, also where the
// queue's leader, which deletes it as well, was first.
func TestAuditOfDeletedIfEmpty(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	const queues = 60
	a := startAuditing(t, 3)
	awaitVersion(t, a.c, 3)
	ctx := testContext(t)
	var clients []*client.Client
	for i := range 3 {
		clients = append(clients, admin(t, a.c, i))
	}
	var want []audited
	for i := range queues {
		name := fmt.Sprintf("q%d", i)
		if _, err := a.root.DeclareQueue(ctx, client.Queue{Name: name}); err != nil {
			t.Fatal(err)
		}
		want = append(want, audited{"queue.delete", "/", name, "guest", "grpc", "done", "type:quorum>"})
	}
	var all sync.WaitGroup
	for i := range queues {
		all.Go(func() {
			if _, err := clients[i%3].DeleteQueue(ctx, client.DeleteQueueRequest{Name: fmt.Sprintf("q%d", i), IfEmpty: true}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	a.once(want...)
}
