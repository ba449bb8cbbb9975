package cluster

import (
	"testing"

	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/wal"
	"github.com/quorate/quorate/wal/vfs"
)

// A follower whose disk takes nothing holds up neither its queue nor others, and what
// waits for it is bounded on both sides.
func TestSlowFollower(t *testing.T) {
	if testing.Short() {
		t.Skip("publishes much more than may wait; run without -short")
	}
	t.Parallel()
	n, d := newDiskNodes(t, nil)
	n.start("a", "b", "c")
	a := n.nodes["a"]
	q, other := a.declare(t, "q", 3), a.declare(t, "other", 3)
	a.publish(t, q, "before", quorumq.Unlimited)
	hung, release := d.of(n, "c").HangAt(vfs.OpWrite, 1)
	defer release()
	body := make([]byte, 1<<20)
	const count = 96
	done := make(chan error, count)
	for range count {
		if err := a.queue(t, q).Enqueue(testContext(t), quorumq.NewMessage{Size: uint32(len(body)), TTLMs: quorumq.Unlimited}, body,
			func(err error) { done <- err }); err != nil {
			t.Fatal(err)
		}
		a.publish(t, other, "x", quorumq.Unlimited)
	}
	<-hung
	for range count {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	s := a.mux.Stats()
	for _, p := range s.Peers {
		if p.RaftQueueBytes+p.QueueBytes > s.MaxStreamQueueBytes {
			t.Errorf("%d bytes wait for node %s", p.RaftQueueBytes+p.QueueBytes, p.Node)
		}
	}
	if w := n.nodes["c"].storage.Stats(); w.PendingBytes > wal.DefaultMaxPendingBytes+(4<<20) {
		t.Errorf("%d bytes wait for the disk of c", w.PendingBytes)
	}
}
