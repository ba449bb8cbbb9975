package testcluster_test

import (
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
	members, err := cl.QueueMembers(ctx, client.ListQueueMembersRequest{Queue: "q"})
	if err != nil || len(members) != 3 || members[0].Digest != "" || members[0].Raft == nil {
		t.Errorf("without digests: %+v, %v", members, err)
	}
	c.Kill(2)
	for {
		members, err := cl.QueueMembers(ctx, client.ListQueueMembersRequest{Queue: "q", Digests: true})
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
	if _, err := cl.QueueMembers(ctx, client.ListQueueMembersRequest{Queue: "nix"}); client.ClassOf(err) != client.NotFound {
		t.Errorf("members of a queue that is not there: %v", err)
	}
}

// restingDigest waits until all members of the queue q have been seen at one applied index, and returns
// their digest there. Each look puts an entry into the leader's log, so they are seldom all at one index
// at once.
func restingDigest(t *testing.T, cl *client.Client, members int) string {
	t.Helper()
	ctx, seen := testContext(t), map[uint64]map[string]string{} // by index and node
	for {
		all, err := cl.QueueMembers(ctx, client.ListQueueMembersRequest{Queue: "q", Digests: true})
		if err != nil || len(all) != members {
			t.Fatalf("members %+v, %v", all, err)
		}
		for _, m := range all {
			at := m.Raft.AppliedIndex
			if m.Digest == "" {
				continue
			}
			if seen[at] == nil {
				seen[at] = map[string]string{}
			}
			seen[at][m.Node] = m.Digest
			if len(seen[at]) < members {
				continue
			}
			for node, digest := range seen[at] {
				if digest != m.Digest {
					t.Fatalf("at index %d node %s has the digest %s, node %s %s", at, m.Node, m.Digest, node, digest)
				}
			}
			return m.Digest
		}
		if wait.For(ctx, 20*time.Millisecond) != nil {
			t.Fatalf("not in time: %+v", all)
		}
	}
}
