package cluster

import (
	"testing"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// A queue whose leader's node is gone gets another leader, and a node that comes back
// follows it.
func TestLeaderIsReplaced(t *testing.T) {
	n := newTestNodes(t, nil)
	n.start("a", "b", "c")
	q := n.nodes["a"].declare(t, "q", 3)
	t.Cleanup(func() {
		if t.Failed() {
			n.explain(q)
		}
	})
	enqueue := func(seq quorumq.Seq) {
		n.do(q, &quorumq.Enqueue{
			Enqueuer: quorumq.EnqueuerKey{Node: "z", Epoch: 1}, First: seq,
			Messages: []quorumq.NewMessage{{Size: 5, TTLMs: quorumq.Unlimited}},
		}, []byte("hello"))
	}
	enqueue(1)
	gone := n.leader(q).cfg.Node
	begin := time.Now()
	n.stop(gone)
	enqueue(2)
	t.Logf("a leader %v after its node began to stop", time.Since(begin))
	n.start(gone)
	poll(t, "the node that is back knows the leader and what was committed", func() error {
		m := n.nodes[gone].host.Member(q)
		if m == nil {
			return errWaiting
		}
		if leader, _ := m.Group().Leader(); leader == "" || leader == gone {
			return errWaiting
		}
		if m.Group().Stats().AppliedIndex < n.leader(q).host.Member(q).Group().Stats().AppliedIndex {
			return errWaiting
		}
		return nil
	})
}

// A node without a quorum within reach answers so within the time of a command, and its
// queue is there again with the quorum.
func TestNoQuorum(t *testing.T) {
	n := newTestNodes(t, func(config *Config) {
		config.CommandTimeout = 3 * time.Second
	})
	n.start("a", "b", "c")
	q := n.nodes["a"].declare(t, "q", 3)
	n.stop("b", "c")
	begin := time.Now()
	if _, err := n.nodes["a"].leaders.Status(testContext(t), q); err == nil {
		t.Error("a node alone reads the queue")
	}
	t.Logf("it took %v to say so", time.Since(begin))
	poll(t, "nobody leads", func() error {
		m := n.nodes["a"].host.Member(q)
		if m == nil {
			return errWaiting
		}
		if leader, _ := m.Group().Leader(); leader != "" {
			return errWaiting
		}
		return nil
	})
	n.start("b")
	poll(t, "it is there with a quorum again", func() error {
		_, err := n.nodes["b"].leaders.Status(testContext(t), q)
		return err
	})
}

// explain logs what all members of a queue's group know.
func (n *testNodes) explain(q id.QueueUID) {
	n.t.Helper()
	for i, node := range n.nodes {
		m := node.host.Member(q)
		if m == nil {
			n.t.Logf("%s: no member", i)
			continue
		}
		n.t.Logf("%s: %+v, leading %v, failed %v", i, m.Group().Stats(), m.Group().Leading(), m.Group().Failed())
		if l := node.liveness; l != nil {
			n.t.Logf("%s: %s; %+v", i, l.Explain(q.Group()), l.Stats())
		}
	}
}
