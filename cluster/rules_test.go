package cluster

import (
	"fmt"
	"slices"
	"testing"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// configOf returns what a node's member of a queue has in force.
func configOf(n *testNode, q id.QueueUID) (c quorumq.Config) {
	n.host.Member(q).Read(func(state *quorumq.Queue) { c = state.Config() })
	return c
}

// ruled waits until all members of a queue go by these rules.
func (n *testNodes) ruled(q id.QueueUID, want quorumq.Rules) {
	n.t.Helper()
	poll(n.t, fmt.Sprintf("queue %s goes by rules %d", q, want), func() error {
		for i, node := range n.nodes {
			if node.host.Member(q) == nil {
				return fmt.Errorf("node %s has no member yet", i)
			}
			if got := configOf(node, q).Rules; got != want {
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
			m, expired := node.host.Member(q), uint64(0)
			m.Read(func(state *quorumq.Queue) { expired = state.Overview().Expired })
			if expired != 2*due {
				return fmt.Errorf("%d on node %s", expired, i)
			}
		}
		return nil
	})

	old := configOf(n.leader(q), q)
	old.Rules = quorumq.RulesFirst
	n.do(q, &quorumq.Configure{Config: old})
	n.ruled(q, quorumq.NewestRules)
}
