package cluster

import (
	"fmt"
	"slices"
	"testing"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// ruled waits until all members of a queue go by these rules.
func (n *testNodes) ruled(q id.QueueUID, want quorumq.Rules) {
	n.t.Helper()
	poll(n.t, fmt.Sprintf("queue %s goes by rules %d", q, want), func() error {
		for i, node := range n.nodes {
			if got := node.host.queue(q).config().Rules; got != want {
				return fmt.Errorf("on node %s by %d", i, got)
			}
		}
		return nil
	})
}

// Queues go by the rules that all builds of the cluster know, and by newer ones from one entry
// on, once a version is finalised: those that are there without anybody asking, new ones from
// the start, and a new leader whose view is behind takes nothing back.
func TestRulesRiseWithTheVersion(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, func(c *Config) {
		steady(c)
		c.ManualFinalise = true
	})
	n.start("a", "b", "c")
	q := n.nodes["a"].declare(t, "orders", 3)
	const due = 2 * quorumq.ExpireSlice
	n.do(q, &quorumq.Enqueue{
		Enqueuer: quorumq.EnqueuerKey{Node: "a", Epoch: 1}, First: 1,
		Messages: slices.Repeat([]quorumq.NewMessage{{Size: 1, TTLMs: 1}}, due),
	}, slices.Repeat([][]byte{{1}}, due)...)
	n.ruled(q, quorumq.RulesFirst)

	ctx := testContext(t)
	poll(t, "it is finalised", func() error { _, err := n.nodes["b"].catalog.Finalise(ctx); return err })
	n.finalised("a", "b", "c")
	n.ruled(q, quorumq.NewestRules)
	n.ruled(n.nodes["a"].declare(t, "bills", 3), quorumq.NewestRules)

	n.do(q, &quorumq.Enqueue{
		Enqueuer: quorumq.EnqueuerKey{Node: "a", Epoch: 1}, First: due + 1,
		Messages: slices.Repeat([]quorumq.NewMessage{{Size: 1, TTLMs: 1}}, due),
	}, slices.Repeat([][]byte{{1}}, due)...)
	poll(t, "all slices have expired on all members", func() error {
		for i, node := range n.nodes {
			m, expired := node.host.queue(q), uint64(0)
			m.group.Read(func() { expired = m.machine.queue.Overview().Expired })
			if expired != 2*due {
				return fmt.Errorf("%d on node %s", expired, i)
			}
		}
		return nil
	})

	l := n.leader(q).host.queue(q)
	old := l.config()
	old.Rules = quorumq.RulesFirst
	n.do(q, &quorumq.Configure{Config: old})
	n.ruled(q, quorumq.NewestRules)
}

// Who sleeps is not woken for newer rules alone.
func TestRulesWakeNobody(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	n.finalised("a")
	node := n.nodes["a"]
	q := node.declare(t, "orders", 1)
	r, _ := node.View().QueueByUID(q)
	has := node.queueConfig(node.View(), r)
	if has.Rules != quorumq.NewestRules {
		t.Fatalf("rules %d, want %d", has.Rules, quorumq.NewestRules)
	}
	has.Rules = quorumq.RulesFirst
	if node.settingsDiffer(node.View(), r, has) {
		t.Error("a queue with the same settings and older rules would be woken")
	}
	has.MaxLength = 7
	if !node.settingsDiffer(node.View(), r, has) {
		t.Error("a queue with other settings would not be woken")
	}
}

// One Expire is on its way at a time, and a time that comes meanwhile is not lost.
func TestOneExpireAtATime(t *testing.T) {
	var x expiry
	if !x.begin(5) || x.begin(7) || x.begin(9) {
		t.Fatal("not one at a time")
	}
	if again := x.end(); again != 9 {
		t.Errorf("time %d came last, want 9", again)
	}
	if !x.begin(9) || x.end() != 0 {
		t.Error("the next one finds the first")
	}
}
