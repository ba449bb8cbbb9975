package cluster

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// spoil changes a bit of a running node's shared log, where the text is.
func (n *testNodes) spoil(i id.NodeID, text string) {
	n.t.Helper()
	for _, path := range n.segments(i) {
		b, err := os.ReadFile(path)
		if err != nil {
			n.t.Fatal(err)
		}
		at := bytes.Index(b, []byte(text))
		if at < 0 {
			continue
		}
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			n.t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte{b[at] ^ 1}, int64(at)); err != nil {
			n.t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			n.t.Fatal(err)
		}
		return
	}
	n.t.Fatalf("node %s has no %q in its log", i, text)
}

// misplace takes the entry of a message out of a running node's log, as if the log had lost it without a sign of
// damage. The message is the n-th of those that consumers hold.
func (n *testNodes) misplace(i id.NodeID, q id.QueueUID, nth int) {
	n.t.Helper()
	var held []quorumq.Delivery
	n.nodes[i].host.Member(q).Read(func(state *quorumq.Queue) {
		for s := range state.Sessions() {
			held = state.Assigned(held, quorumq.ConsumerKey{SessionKey: s, Tag: traffic.ConsumerTag}, 0)
		}
	})
	index := held[nth].Body.Index
	log, err := n.nodes[i].storage.Group(q.Group())
	if err == nil {
		err = log.DeleteRange(1, index)
	}
	if err == nil {
		live := func(yield func(first, last uint64) bool) { yield(1, index-1) }
		err = log.Retain(index, live)
	}
	if err != nil {
		n.t.Fatal(err)
	}
}

// G1, DEL-12: the leader cannot read a message that it has assigned to a consumer of another node, which has had no
// room for it yet. The gateway does not take it for settled: the leader stops, and the message comes from the next one,
// as does all behind it.
func TestUnreadableWhileHeld(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(n *testNodes, q id.QueueUID, nth int){
		"damaged": func(n *testNodes, _ id.QueueUID, nth int) { n.spoil("a", slowBody(nth)) },
		"missing": func(n *testNodes, q id.QueueUID, nth int) { n.misplace("a", q, nth) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			unreadableWhileHeld(t, harm)
		})
	}
}

// unreadableWhileHeld has the leader's log harmed at a message that a consumer holds and has not got.
func unreadableWhileHeld(t *testing.T, harm func(n *testNodes, q id.QueueUID, nth int)) {
	t.Helper()
	n := newTestNodes(t, func(cfg *Config) {
		steady(cfg)
		cfg.BodyCacheBytes, cfg.TailBytes = 1, 1 // reads come from the disk
	})
	n.start("a", "b", "c")
	a := n.nodes["a"]
	q := a.declare(t, "q", 3)
	n.transferTo(t, q, "a")
	const count, spoilt = 60, 40
	for i := range count {
		a.publish(t, q, slowBody(i), quorumq.Unlimited)
	}
	s := newSlowClient(slowLimit)
	c := s.consume(t, n.nodes["b"], q)
	poll(t, "all is assigned, and the consumer waits", func() error {
		if o := n.overview(q); o.Unsettled != count || !c.HasPending() || s.stats.Held.Load() < slowLimit {
			return fmt.Errorf("%d assigned, %d bytes are held", o.Unsettled, s.stats.Held.Load())
		}
		return nil
	})
	if n.leader(q) != a {
		t.Fatal("the node with the log that is harmed does not lead")
	}
	harm(n, q, spoilt)
	var before time.Time // it is asked for
	for i := range count {
		poll(t, fmt.Sprintf("delivery %d comes", i), func() error {
			if !s.takeOne() {
				return errWaiting
			}
			return nil
		})
		if d := s.taken[i]; string(d.Message) != slowBody(i) {
			t.Fatalf("delivery %d is %d, %s", i, d.MsgID, d.Message)
		}
		switch i {
		case spoilt - 1:
			before = time.Now()
		case spoilt:
			t.Logf("the next leader delivers it after %v", time.Since(before))
		}
	}
	if n.leader(q) == a {
		t.Error("the node with the damaged log leads still: it was not read")
	}
}
