package cluster

import (
	"fmt"
	"slices"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// Q-14, QX-3: a node that starts alone leads its queue by a catalog from before a policy was removed. It puts nothing of
// the policy in force, when it begins to lead or when the others are there: no message is dropped, and the queue, which
// would have expired at once, is not deleted.
func TestStartsWithOldPolicies(t *testing.T) {
	t.Parallel()
	for key, value := range map[string]int64{"max-length": 1, "message-ttl": 1, "expires": 1} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			n := newTestNodes(t, steady)
			n.start("a", "b", "c")
			n.finalised("a", "b", "c")
			q := n.policyThatWas(t, key, value)
			const count = 100
			n.do(q, &quorumq.Enqueue{
				Enqueuer: quorumq.EnqueuerKey{Node: "a", Epoch: 1}, First: 1,
				Messages: slices.Repeat([]quorumq.NewMessage{{Size: 1, TTLMs: quorumq.Unlimited}}, count),
			}, slices.Repeat([][]byte{{1}}, count)...)
			want := configOf(n.nodes["c"], q)
			n.stop("a", "b", "c")

			n.launch("c")
			alone := n.nodes["c"]
			if _, exists := alone.View().Policy("/", "old", false); !exists {
				t.Fatal("its view does not have the old policy")
			}
			n.begun("c", q)
			n.intact(t, q, want, count)
			n.launch("a", "b")
			n.ready("a", "b", "c")
			if err := alone.catalog.Confirm(testContext(t)); err != nil {
				t.Fatal(err)
			}
			n.begun("c", q)
			n.intact(t, q, want, count)
		})
	}
}

// policyThatWas returns a queue whose member is on node c, to which a policy applied for a while: that node's snapshot of
// the catalog has it.
func (n *testNodes) policyThatWas(t *testing.T, key string, value int64) id.QueueUID {
	t.Helper()
	c := n.nodes["c"]
	propose := func(cmd catalog.Command) catalog.Reply {
		t.Helper()
		r, err := c.catalog.Propose(testContext(t), cmd)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	q := propose(&catalog.DeclareQueue{
		VHost: "/", Name: "q", Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"c"}, Leader: "c",
	}).UID
	applies := func(want bool) {
		t.Helper()
		poll(t, fmt.Sprintf("the policy is in force: %v", want), func() error {
			x := configOf(c, q)
			if limited := x.MaxLength != quorumq.Unlimited || x.MessageTTLMs != quorumq.Unlimited || x.ExpiresMs != quorumq.Unlimited; limited != want {
				return fmt.Errorf("%+v", x)
			}
			return nil
		})
	}
	user, _ := c.consume(t, q) // as long as it is there, the queue does not expire
	propose(&catalog.PutPolicy{Policy: catalog.Policy{
		VHost: "/", Name: "old", Pattern: "^q$", ApplyTo: catalog.ApplyToQueues,
		Definition: message.Table{{Name: key, Value: message.Int64(value)}},
	}})
	applies(true)
	if err := c.catalog.Raft().Snapshot(); err != nil {
		t.Fatal(err)
	}
	propose(&catalog.DeletePolicy{VHost: "/", Name: "old"})
	applies(false)
	if err := user.Cancel(testContext(t), false); err != nil {
		t.Fatal(err)
	}
	return q
}

// begun waits until a node leads a queue, and has begun what it does when it begins to lead.
func (n *testNodes) begun(i id.NodeID, q id.QueueUID) {
	n.t.Helper()
	n.do(q, &quorumq.Renew{}) // applied after the Lead command, so its tasks wait for a worker
	turn := make(chan struct{})
	n.nodes[i].host.Held(q, quorumq.ConsumerKey{}, 0, traffic.NoRoomLimit, func(traffic.Holding, error) { close(turn) })
	<-turn
	n.do(q, &quorumq.Renew{}) // applied after what those have proposed
}

// intact checks that a queue whose member is on node c is there, with its configuration and its messages.
func (n *testNodes) intact(t *testing.T, q id.QueueUID, want quorumq.Config, messages uint64) {
	t.Helper()
	m := n.nodes["c"].host.Member(q)
	if _, exists := n.nodes["c"].View().QueueByUID(q); !exists || m == nil {
		t.Fatal("the queue is gone")
	}
	var got quorumq.Config
	var ready uint64
	m.Read(func(state *quorumq.Queue) { got, ready = state.Config(), state.Overview().Ready })
	if got != want || ready != messages {
		t.Errorf("%d messages of %d are left, configuration %+v, want %+v", ready, messages, got, want)
	}
}
