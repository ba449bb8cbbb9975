//go:build linux

package cluster

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/quorate/quorate/cluster/disk"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/wal"
)

const (
	drainMountBytes = 64 << 20
	drainBody       = 100 << 10
)

// fillUp publishes large messages until the queue refuses them for lack of room, and returns how many were confirmed.
func (n *testNode) fillUp(t *testing.T, q id.QueueUID) (confirmed uint64) {
	t.Helper()
	var mu sync.Mutex
	var under sync.WaitGroup
	var refused error
	body := []byte(strings.Repeat("x", drainBody))
	end := n.queue(t, q)
	for refused == nil {
		under.Add(1)
		err := end.Enqueue(testContext(t), quorumq.NewMessage{Size: drainBody, TTLMs: quorumq.Unlimited}, body, func(err error) {
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				confirmed++
			}
			under.Done()
		})
		if err != nil {
			under.Done()
			refused = err
		}
	}
	under.Wait()
	if !errors.Is(refused, disk.ErrNoSpace) {
		t.Fatalf("the queue refuses with %v, want %v", refused, disk.ErrNoSpace)
	}
	return confirmed
}

// drain consumes and acknowledges until the queue has no message but those that others hold.
func (n *testNodes) drain(at *testNode, q id.QueueUID, held uint64) {
	n.t.Helper()
	taken := make(chan []traffic.Delivery, 1000)
	c, err := at.queue(n.t, q).Consume(testContext(n.t), gateway.ConsumerConfig{
		Prefetch: 20, Deliver: func(ds []traffic.Delivery) { taken <- ds }, Ended: func(error) {},
	})
	if err != nil {
		n.t.Fatal(err)
	}
	done := make(chan struct{})
	var acks sync.WaitGroup
	acks.Go(func() {
		for {
			select {
			case ds := <-taken:
				c.Decide(quorumq.MsgIDRange{First: ds[0].MsgID, Last: ds[len(ds)-1].MsgID}, gateway.Decision{Kind: gateway.Ack})
			case <-done:
				return
			}
		}
	})
	poll(n.t, "the queue is drained", func() error {
		if err := c.Flush(testContext(n.t)); err != nil { // an ack waits for others, unless somebody waits for it
			return err
		}
		if o := n.overview(q); o.Ready > 0 || o.Unsettled != held {
			return fmt.Errorf("%d ready, %d unsettled, of which others hold %d", o.Ready, o.Unsettled, held)
		}
		return nil
	})
	c.Close()
	close(done)
	acks.Wait()
}

// recovers polls until the queue takes a message again, with nobody's help.
func (n *testNodes) recovers(t *testing.T, at *testNode, q id.QueueUID) {
	t.Helper()
	poll(t, "the queue takes messages again", func() error {
		err := at.tryPublish(t, q, "after")
		if err != nil {
			return fmt.Errorf("%w; live: %d of %d", err, at.storage.Stats().LiveBytes, at.storage.Stats().DiskBytes)
		}
		return nil
	})
	for name, node := range n.nodes {
		if p := node.disks.Of(name).Pressure; p == wal.PressureFloor {
			t.Errorf("node %s is at %v", name, p)
		}
	}
}

// Large messages fill the disks of all nodes. Whether they are consumed, purged, or consumed
// after all nodes were started anew in that state: publishers go on by themselves, although a
// slow consumer holds the oldest message all the time.
func TestFullDiskIsDrained(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("fills file systems; run without -short")
	}
	n := mountDataDirs(t, drainMountBytes, nil)
	n.start("a", "b", "c")
	q := n.nodes["a"].declare(t, "q", 3)
	n.nodes["a"].publish(t, q, "old", quorumq.Unlimited)
	held := &testInbox{}
	slow := gateway.ConsumerConfig{Prefetch: 1, Deliver: held.take, Ended: func(error) {}}
	if _, err := n.nodes["a"].queue(t, q).Consume(testContext(t), slow); err != nil {
		t.Fatal(err)
	}
	held.await(t, "old")
	b := func() *testNode { return n.nodes["b"] }

	first := b().fillUp(t, q)
	n.drain(b(), q, 1)
	n.recovers(t, b(), q)

	if again := b().fillUp(t, q); again < first/2 {
		t.Errorf("the second time %d messages filled the disk, the first time %d", again, first)
	}
	if _, err := b().queue(t, q).Purge(testContext(t)); err != nil {
		t.Fatal(err)
	}
	n.recovers(t, b(), q)

	if again := b().fillUp(t, q); again < first/2 {
		t.Errorf("the third time %d messages filled the disk, the first time %d", again, first)
	}
	n.stop("a", "b", "c")
	n.start("a", "b", "c")
	b().fillUp(t, q) // a start gives a little room back: it closes files ahead of their records
	n.drain(b(), q, 0)
	n.recovers(t, b(), q)
}
