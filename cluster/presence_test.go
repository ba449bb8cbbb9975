package cluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/quorumq"
)

// DC-1: what a consumer of a node that went holds is delivered to another one after the
// timeout, as no failure.
func TestNodeGone(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	q := n.nodes["a"].declare(t, "q", 3, number("x-consumer-disconnected-timeout", 300))
	_, gone := n.nodes["c"].consume(t, q)
	n.nodes["a"].publish(t, q, "held", quorumq.Unlimited)
	gone.await(t, "held")
	_, in := n.nodes["b"].consume(t, q)
	n.nodes["c"].gateway.Close() // its client falls silent, and then it cannot be reached
	n.leader(q).host.Inbound(transport.Peer{Node: "c", Epoch: n.nodes["c"].epoch}, false)
	in.await(t, "held")
	in.mu.Lock()
	defer in.mu.Unlock()
	if d := in.ds[0]; d.DeliveryCount != 0 || d.AcquiredCount != 1 {
		t.Errorf("%+v", d)
	}
}

// DC-1: what consumers of a process held that is no more is delivered to others at once, and not
// after the timeout, as failed; what was got without a consumer may still be settled elsewhere.
func TestEndedReturns(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	q := n.nodes["a"].declare(t, "q", 3)
	n.nodes["a"].publish(t, q, "got", quorumq.Unlimited)
	if _, _, _, err := n.nodes["c"].queue(t, q).Get(testContext(t), false); err != nil {
		t.Fatal(err)
	}
	_, gone := n.nodes["c"].consume(t, q)
	n.nodes["a"].publish(t, q, "held", quorumq.Unlimited)
	gone.await(t, "held")
	_, in := n.nodes["b"].consume(t, q)
	n.nodes["c"].gateway.Close() // it falls silent, and then it ends
	n.stop("c")
	in.await(t, "held")
	in.mu.Lock()
	d := in.ds[0]
	in.mu.Unlock()
	if d.DeliveryCount != 1 || d.AcquiredCount != 1 {
		t.Errorf("%+v", d)
	}
	if o := n.overview(q); o.Unsettled != 2 || o.Ready != 0 {
		t.Errorf("what was got has returned: %+v", o)
	}
}

// DC-1: what a consumer of a node held that is forgotten is delivered to another one at once,
// and not after the timeout. The node has no member of the queue.
func TestForgottenReturns(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, func(c *Config) {
		steady(c)
		if c.Node == "d" {
			c.PeerAddr = silentAfter(t, c.PeerAddr)
		}
	})
	n.start("a", "b", "c")
	q := n.nodes["a"].declare(t, "q", 3)
	n.start("d")
	_, gone := n.nodes["d"].consume(t, q)
	n.nodes["a"].publish(t, q, "held", quorumq.Unlimited)
	gone.await(t, "held")
	n.nodes["d"].gateway.Close() // its client falls silent, and then it goes, and nobody knows where
	n.stop("d")
	_, in := n.nodes["b"].consume(t, q)
	poll(t, "d is not there", func() error {
		if o := n.overview(q); o.Unsettled != 1 {
			t.Fatalf("it returned before: %+v", o)
		}
		return n.nodes["a"].operator.ForgetNode(testContext(t), "d", false, nil)
	})
	in.await(t, "held")
	poll(t, "nothing is left of d", func() error {
		l := n.leader(q)
		var left int
		l.host.Member(q).Read(func(state *quorumq.Queue) {
			for s := range state.Sessions() {
				if s.Node == "d" {
					left++
				}
			}
		})
		if left > 0 {
			return fmt.Errorf("%d sessions", left)
		}
		return nil
	})
}

// silentAfter passes on what comes to the address that it returns, as long as somebody takes it at
// the other one, and accepts connections and says nothing after that: so nobody can say that a
// process has ended.
func silentAfter(t *testing.T, address string) string {
	t.Helper()
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(t.Context(), func() { _ = in.Close() })
			var d net.Dialer
			out, err := d.DialContext(t.Context(), "tcp", address)
			if err != nil {
				continue
			}
			go pass(out, in)
			go pass(in, out)
		}
	}()
	return l.Addr().String()
}

// pass copies until either end is closed, and then closes both.
func pass(to, from net.Conn) {
	_, _ = io.Copy(to, from) // either ends it
	_, _ = to.Close(), from.Close()
}

// DC-1: a node whose connection is down is assigned nothing, even if a command that was on its
// way makes the queue trust it again; when the connection is up, it is.
func TestSuspicion(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	a, b := n.nodes["a"], n.nodes["b"]
	q := a.declare(t, "q", 3)
	_, first := b.consume(t, q)
	m := a.host.Member(q)
	link := func(up bool) { a.host.Inbound(transport.Peer{Node: "b", Epoch: b.epoch}, up) }
	trusts := func(consumers, idle int, atLeast uint64) {
		t.Helper()
		poll(t, fmt.Sprintf("of %d consumers %d may be assigned something", consumers, idle), func() error {
			commands := m.Group().Stats().Commands
			if o := n.overview(q); o.Consumers != consumers || o.ConsumersIdle != idle || commands < atLeast {
				return fmt.Errorf("%+v after %d commands", o, commands)
			}
			return nil
		})
	}
	trusts(1, 1, 0)
	link(false)
	trusts(1, 0, 0)
	commands := m.Group().Stats().Commands
	_, second := b.consume(t, q)
	trusts(2, 0, commands+2) // the registration, and the word that b is gone once more
	a.publish(t, q, "x", quorumq.Unlimited)
	if o := n.overview(q); o.Ready != 1 || o.Unsettled != 0 {
		t.Errorf("assigned to a node that is gone: %+v", o)
	}
	if got := append(first.bodies(), second.bodies()...); len(got) > 0 {
		t.Errorf("delivered %q", got)
	}
	link(true)
	poll(t, "the message is assigned", func() error {
		if o := n.overview(q); o.Unsettled != 1 {
			return fmt.Errorf("%+v", o)
		}
		return nil
	})
}
