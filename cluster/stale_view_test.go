package cluster

import (
	"fmt"
	"slices"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// Q-14, QX-3: a node that starts alone leads its queues at once, by a catalog of long ago. It neither
// drops messages by a limit that was lifted since, nor has a queue deleted that was to expire then.
func TestStartsWithOldPolicies(t *testing.T) {
	t.Parallel()
	for key, value := range map[string]int64{"max-length": 1, "message-ttl": 1, "expires": 3_600_000} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			n := newTestNodes(t, steady)
			n.start("a", "b", "c")
			c := n.nodes["c"]
			propose := func(cmd catalog.Command) catalog.Reply {
				t.Helper()
				r, err := c.catalog.Propose(testContext(t), cmd)
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			n.finalised("a", "b", "c")
			policy := catalog.Policy{
				VHost: "/", Name: "old", Pattern: "^q$", ApplyTo: catalog.ApplyToQueues,
				Definition: message.Table{{Name: key, Value: message.Int64(value)}},
			}
			propose(&catalog.PutPolicy{Policy: policy})
			q := propose(&catalog.DeclareQueue{
				VHost: "/", Name: "q", Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"c"}, Leader: "c",
			}).UID
			if err := c.catalog.Raft().Snapshot(); err != nil {
				t.Fatal(err)
			}
			propose(&catalog.DeletePolicy{VHost: "/", Name: "old"})
			poll(t, "nothing is limited", func() error {
				if n.leader(q) != c {
					return errWaiting
				}
				if x := configOf(c, q); x.MaxLength != quorumq.Unlimited || x.MessageTTLMs != quorumq.Unlimited || x.ExpiresMs != quorumq.Unlimited {
					return fmt.Errorf("%+v", x)
				}
				return nil
			})
			const count = 100
			n.do(q, &quorumq.Enqueue{
				Enqueuer: quorumq.EnqueuerKey{Node: "a", Epoch: 1}, First: 1,
				Messages: slices.Repeat([]quorumq.NewMessage{{Size: 1, TTLMs: quorumq.Unlimited}}, count),
			}, slices.Repeat([][]byte{{1}}, count)...)
			want := configOf(c, q)
			n.stop("a", "b", "c")

			n.launch("c")
			alone := n.nodes["c"]
			if _, exists := alone.View().Policy("/", "old", false); !exists {
				t.Fatal("its view does not have the old policy")
			}
			n.leader(q)
			poll(t, "it has begun to lead", func() error {
				if alone.EventCounts()[event.LeaderChanged] == 0 {
					return errWaiting
				}
				return nil
			})
			for range 20 { // these come after what a leader does at once
				n.do(q, &quorumq.Renew{})
			}
			n.intact(t, q, want, count)
			n.launch("a", "b")
			n.ready("a", "b", "c")
			n.intact(t, q, want, count)
		})
	}
}

// intact checks that a queue whose member is on node c has its configuration and its messages.
func (n *testNodes) intact(t *testing.T, q id.QueueUID, want quorumq.Config, messages uint64) {
	t.Helper()
	m := n.nodes["c"].host.Member(q)
	if m == nil {
		t.Fatal("the queue is gone")
	}
	var got quorumq.Config
	var ready uint64
	m.Read(func(state *quorumq.Queue) { got, ready = state.Config(), state.Overview().Ready })
	if got != want || ready != messages {
		t.Errorf("%d messages of %d are left, configuration %+v, want %+v", ready, messages, got, want)
	}
}
