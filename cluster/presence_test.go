package cluster

import (
	"fmt"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/quorumq"
)

// DC-1: what a consumer of a node that went holds is delivered to another one after the
// timeout, as no failure.
func TestNodeGone(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, func(c *Config) {
		c.QueueConfig = func(*catalog.View, *catalog.QueueRecord) quorumq.Config {
			cfg := quorumq.DefaultConfig()
			cfg.DisconnectedTimeoutMs = 300
			return cfg
		}
	})
	n.start("a", "b", "c")
	q := n.nodes["a"].declare(t, "q", 3)
	_, gone := n.nodes["c"].consume(t, q)
	n.nodes["a"].publish(t, q, "held", quorumq.Unlimited)
	gone.await(t, "held")
	_, in := n.nodes["b"].consume(t, q)
	n.nodes["c"].gateway.close() // its client says nothing any more, and then it goes
	n.stop("c")
	in.await(t, "held")
	in.mu.Lock()
	defer in.mu.Unlock()
	if d := in.ds[0]; d.DeliveryCount != 0 || d.AcquiredCount != 1 {
		t.Errorf("%+v", d)
	}
}

// DC-1: a node whose link is down is assigned nothing, even if a command that was on its
// way makes the queue trust it again; when the link is up, it is.
func TestSuspicion(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	a, b := n.nodes["a"], n.nodes["b"]
	q := a.declare(t, "q", 3)
	_, first := b.consume(t, q)
	link := func(up bool) {
		if a.host.peers.inbound(transport.Peer{Node: "b", Epoch: b.epoch}, up) {
			a.host.checkNodes()
		}
	}
	told := func(want presence, atLeast uint64) {
		t.Helper()
		l := a.leaders.get(q)
		m := a.host.queue(q)
		poll(t, fmt.Sprintf("the queue is told %+v", want), func() error {
			var got presence
			done := make(chan struct{})
			m.box.post(func() { got = l.told["b"]; close(done) })
			<-done
			if commands := m.group.Stats().Commands; got != want || commands < atLeast {
				return fmt.Errorf("told %+v after %d commands", got, commands)
			}
			return nil
		})
	}
	down := presence{epoch: b.epoch}
	link(false)
	told(down, 0)
	commands := a.host.queue(q).group.Stats().Commands
	_, second := b.consume(t, q)
	told(down, commands+2) // the registration, and the word that b is gone once more
	a.publish(t, q, "x", quorumq.Unlimited)
	if o := n.overview(q); o.Ready != 1 || o.Unsettled != 0 {
		t.Errorf("assigned to a node that is gone: %+v", o)
	}
	if got := append(first.bodies(), second.bodies()...); len(got) > 0 {
		t.Errorf("delivered %q", got)
	}
	link(true)
	told(presence{epoch: b.epoch, up: true}, 0)
	poll(t, "the message is assigned", func() error {
		if o := n.overview(q); o.Unsettled != 1 {
			return fmt.Errorf("%+v", o)
		}
		return nil
	})
}
