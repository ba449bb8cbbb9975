package testcluster_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/internal/wait"
)

// The members of a queue that have applied the same entries have the same digest, whichever node is
// asked, and another one once the queue has changed (G10).
func TestQueueMembers(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t, 3)
	cl, ctx := admin(t, c, 0), testContext(t)
	awaitVersion(t, c, 3) // what comes with it is an entry of the queue's log
	if _, err := cl.DeclareQueue(ctx, client.Queue{Name: "q"}); err != nil {
		t.Fatal(err)
	}
	p, err := cl.Publisher(client.PublisherConfig{})
	if err != nil {
		t.Fatal(err)
	}
	before := ""
	for range 3 {
		if _, err := p.Publish(ctx, client.Message{RoutingKey: "q", Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		now := restingDigest(t, cl, 3)
		if now == before {
			t.Errorf("the digest is %s, as before the publish", now)
		}
		before = now
	}
	for i := range 3 {
		if now := restingDigest(t, admin(t, c, i), 3); now != before {
			t.Errorf("node %d tells the digest %s, want %s", i, now, before)
		}
	}
	for _, digests := range []bool{true, false} {
		first := lastIndex(t, cl, digests)
		for range 3 {
			if now := lastIndex(t, cl, digests); now != first {
				t.Errorf("a look, with digests: %v, moved the log's end from %d to %d", digests, first, now)
			}
		}
	}
	members, err := client.Collect(cl.QueueMembers(ctx, client.ListQueueMembersRequest{Queue: "q"}))
	if err != nil || len(members) != 3 || members[0].Digest != "" || members[0].Raft == nil {
		t.Errorf("without digests: %+v, %v", members, err)
	}
	c.Kill(2)
	for {
		members, err := client.Collect(cl.QueueMembers(ctx, client.ListQueueMembersRequest{Queue: "q", Digests: true}))
		if err != nil {
			t.Fatal(err)
		}
		silent := 0
		for _, m := range members {
			if m.Node == c.Name(2) && m.State == "" && m.Trouble != "" && m.Raft == nil && m.Digest == "" {
				silent++
			}
		}
		if silent == 1 {
			break
		}
		if wait.For(ctx, 20*time.Millisecond) != nil {
			t.Fatalf("not in time: %+v", members)
		}
	}
	if _, err := client.Collect(cl.QueueMembers(ctx, client.ListQueueMembersRequest{Queue: "nix"})); client.ClassOf(err) != client.NotFound {
		t.Errorf("members of a queue that is not there: %v", err)
	}
}

// restingDigest waits until all members of the queue q are at one applied index, and returns their digest.
func restingDigest(t *testing.T, cl *client.Client, members int) string {
	t.Helper()
	ctx := testContext(t)
	for {
		all, err := client.Collect(cl.QueueMembers(ctx, client.ListQueueMembersRequest{Queue: "q", Digests: true}))
		if err != nil || len(all) != members {
			t.Fatalf("members %+v, %v", all, err)
		}
		together := true
		for _, m := range all {
			together = together && m.Digest != "" && m.Raft.AppliedIndex == all[0].Raft.AppliedIndex
		}
		if together {
			for _, m := range all {
				if m.Digest != all[0].Digest {
					t.Fatalf("at index %d node %s has the digest %s, node %s %s", m.Raft.AppliedIndex, m.Node, m.Digest, all[0].Node, all[0].Digest)
				}
			}
			return all[0].Digest
		}
		if wait.For(ctx, 20*time.Millisecond) != nil {
			t.Fatalf("not in time: %+v", all)
		}
	}
}

// lastIndex returns the index of the last entry in the log of the leader of the queue q.
func lastIndex(t *testing.T, cl *client.Client, digests bool) uint64 {
	t.Helper()
	var last uint64
	testcluster.Poll(t, "the leader answers", func() error {
		all, err := client.Collect(cl.QueueMembers(testContext(t), client.ListQueueMembersRequest{Queue: "q", Digests: digests}))
		for _, m := range all {
			if m.State == "leader" && m.Raft != nil {
				last = m.Raft.LastIndex
				return nil
			}
		}
		return fmt.Errorf("no leader among %+v, %w", all, err)
	})
	return last
}
