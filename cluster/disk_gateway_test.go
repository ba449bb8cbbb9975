package cluster

import (
	"sync"
	"testing"

	"github.com/quorate/quorate/wal/vfs"
)

// A node whose disk hangs continues as gateway: what its clients publish goes to the leader that others have elected,
// although its own member takes itself for the leader until the disk is back.
func TestGatewayOfHangingDisk(t *testing.T) {
	t.Parallel()
	n, d := newDiskNodes(t, nil)
	n.start("a", "b", "c")
	a := n.nodes["a"]
	q := a.declare(t, "q", 3)
	n.transferTo(t, q, "a")
	if err := a.tryPublish(t, q, "before"); err != nil {
		t.Fatal(err)
	}
	hung, release := d.of(n, "a").HangAt(vfs.OpSync, 1)
	release = sync.OnceFunc(release)
	defer release()
	during := make(chan error, 1)
	go func() { during <- a.tryPublish(t, q, "while it hangs") }()
	<-hung
	if err := <-during; err != nil {
		t.Fatalf("published while the disk hangs: %v", err)
	}
	for _, body := range []string{"one more", "and another"} {
		if err := a.tryPublish(t, q, body); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
	}
	consumer, in := a.consume(t, q)
	in.await(t, "before", "while it hangs", "one more", "and another")
	consumer.Close()
	if !a.DiskHangs() {
		t.Error("the disk does not hang any more")
	}
}
