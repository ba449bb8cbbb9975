package cluster

import (
	"sync"
	"testing"

	"github.com/quorate/quorate/quorumq"
)

// the record of an unused queue says that it is to be emptied before the queue itself
// knows. Until then the queue asks for its deletion again, with all its messages in it.
func TestUnusedDissolvesBeforeItGoes(t *testing.T) {
	n := newTestNodes(t, steady)
	n.start("a", "b", "c")
	uid := n.nodes["a"].declare(t, "orders", 1, append(atLeastOnce(), text("x-on-delete", "dead-letter"))...)
	leader := n.leader(uid)
	held, free := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(free) })
	t.Cleanup(release)
	leader.host.queue(uid).box.post(func() { close(held); <-free })
	<-held
	n.do(uid, &quorumq.Enqueue{
		Enqueuer: quorumq.EnqueuerKey{Node: "a", Epoch: 1}, First: 1,
		Messages: []quorumq.NewMessage{{Size: 5, TTLMs: quorumq.Unlimited}},
	}, []byte("hello"))
	expires := quorumq.DefaultConfig()
	expires.ExpiresMs, expires.DeadLetter = 1, quorumq.DeadLetterAtLeastOnce
	n.do(uid, &quorumq.Configure{Config: expires})
	poll(t, "the record says that the queue is emptied", func() error {
		if r, ok := leader.View().QueueByUID(uid); ok && r.Dissolving == 0 {
			return errWaiting
		}
		return nil
	})
	leader.host.deleteUnused(testContext(t), uid)
	if _, ok := leader.View().QueueByUID(uid); !ok {
		t.Fatal("the queue was deleted with a message in it")
	}

	release()
	poll(t, "the message is a dead letter", func() error {
		s, err := leader.leaders.Status(testContext(t), uid)
		if err == nil && s.Overview.Backlog != 1 {
			err = errWaiting
		}
		return err
	})
	n.do(uid, &quorumq.BacklogSettle{Ranges: []quorumq.SeqRange{{First: 1, Last: 1}}})
	poll(t, "the queue goes", func() error {
		if _, ok := leader.View().QueueByUID(uid); ok {
			return errWaiting
		}
		return nil
	})
}
