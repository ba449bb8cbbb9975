package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// buried waits until a queue holds so many messages.
func (n *testNode) buried(t *testing.T, grave id.QueueUID, want uint64) {
	t.Helper()
	poll(t, fmt.Sprintf("%d dead letters have arrived", want), func() error {
		s, err := n.leaders.Status(testContext(t), grave)
		if err == nil && s.Overview.Ready != want {
			err = fmt.Errorf("%d have, %d were taken for repeats", s.Overview.Ready, s.Overview.Dedup)
		}
		return err
	})
}

// A recovered queue may lack the dead letters that it had sent, so it must not use their numbers again: the targets
// remember them and would drop what comes under them (DL-25). One queue starts over, another one continues with a log
// that might lack its end.
func TestRecoveredQueueSendsDeadLetters(t *testing.T) {
	t.Parallel()
	n := newTestNodes(t, func(c *Config) { c.Reconcile.Delay = 50 * time.Millisecond })
	n.start("a", "b", "c")
	n.finalised("a", "b", "c")
	safe := []message.Field{
		text("x-dead-letter-exchange", ""), text("x-dead-letter-routing-key", "grave"),
		text("x-dead-letter-strategy", "at-least-once"), text("x-overflow", "reject-publish"),
	}
	grave, here := n.nodes["a"].declare(t, "grave", 3), n.nodes["a"].declare(t, "here", 3, safe...)
	anew := id.QueueUID(0)
	for i := 0; anew == 0; i++ {
		u := n.nodes["b"].declare(t, fmt.Sprint("single-", i), 1, safe...)
		if r, _ := n.nodes["b"].View().QueueByUID(u); r.Members[0] != "a" {
			anew = u
		}
	}
	dies := string(message.Append(nil, &message.Message{RoutingKeys: []string{"q"}, Body: []byte("x")}))
	const before, after = 3, 2
	for _, q := range []id.QueueUID{here, anew} {
		for range before {
			n.nodes["b"].publish(t, q, dies, 1)
		}
	}
	n.nodes["a"].buried(t, grave, 2*before)
	poll(t, "the node that is left has all of that, which a majority had without it", func() error {
		target, source := n.nodes["a"].host.Member(grave), n.nodes["a"].host.Member(here)
		if target == nil || source == nil {
			return errWaiting
		}
		var ready uint64
		var settled quorumq.Seq
		target.Read(func(state *quorumq.Queue) { ready = state.Overview().Ready })
		source.Read(func(state *quorumq.Queue) { settled = state.BacklogSettled() })
		if ready != 2*before || settled != before {
			return fmt.Errorf("%d dead letters have arrived, number %d is settled", ready, settled)
		}
		return nil
	})
	n.stop("a", "b", "c")
	n.remove("b", "c")
	n.recoverWithout("a", "b", "c")

	n.join = nil
	n.start("a")
	for _, q := range []id.QueueUID{here, anew} {
		for range after {
			n.nodes["a"].publish(t, q, dies, 1)
		}
	}
	n.nodes["a"].buried(t, grave, 2*(before+after))
	for _, q := range []id.QueueUID{here, anew} {
		last := quorumq.Seq(0)
		n.nodes["a"].host.Member(q).Read(func(state *quorumq.Queue) { last = state.BacklogSettled() })
		if now := time.Now().UnixMilli(); last < 1<<32 || last > quorumq.Seq(now)<<10+1<<33 {
			t.Errorf("queue %s has used number %d", q, last)
		}
	}
}
