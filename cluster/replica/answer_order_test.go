package replica

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// CO-3: the answer to a cancel comes behind the deliveries that were assigned before, however late the workers are; a
// member that is closed answers all the same.
func TestCancelIsAnsweredBehindDeliveries(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	uid := h.declare("q")
	k := h.consume(uid, "a")
	free := make(chan struct{})
	release := sync.OnceFunc(func() { close(free) })
	t.Cleanup(release)
	if !h.Member(uid).box.Post(func() { <-free }) {
		t.Fatal("the member is closed")
	}
	h.publish(uid, 1, "x", "y")
	answered := make(chan error, 1)
	h.Submit(uid, raftfsm.Command{Header: quorumq.AppendCommand(nil, &quorumq.Cancel{Consumer: k})}, func(r quorumq.Reply, err error) {
		h.seen.mu.Lock()
		defer h.seen.mu.Unlock()
		if n := len(h.seen.deliveries); n != 2 || r.Code != quorumq.CodeOK {
			err = errors.Join(err, fmt.Errorf("answered with code %d after %d deliveries", r.Code, n))
		}
		answered <- err
	})
	h.do(uid, &quorumq.Renew{}) // a later command is answered at once
	release()
	if err := <-answered; err != nil {
		t.Error(err)
	}
	done := h.Member(uid).afterDeliveries(func(quorumq.Reply, error) { answered <- nil })
	h.stop()
	done(quorumq.Reply{}, nil)
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// DEL-4: with auto-ack the answer to a resume has no messages, and its gateway takes no delivery more that the answer
// covers. So these have left before it, however late the workers are, also those of a command that is being applied.
func TestResumeIsAnsweredBehindDeliveries(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	uid := h.declare("q")
	k := quorumq.ConsumerKey{SessionKey: quorumq.SessionKey{Node: "a", Epoch: 1, Session: 1}, Tag: traffic.ConsumerTag}
	h.do(uid, &quorumq.Checkout{Consumer: k, AutoAck: true})
	answered := make(chan error, 3)
	resume := func() {
		h.Held(uid, k, 0, traffic.NoRoomLimit, func(x traffic.Holding, err error) {
			h.seen.mu.Lock()
			defer h.seen.mu.Unlock()
			if n := len(h.seen.deliveries); n != int(x.Last) || len(x.Deliveries) > 0 || x.Cut {
				err = errors.Join(err, fmt.Errorf("answered with %+v after %d deliveries", x, n))
			}
			answered <- err
		})
	}
	free := make(chan struct{})
	release := sync.OnceFunc(func() { close(free) })
	t.Cleanup(release)
	if !h.Member(uid).box.Post(func() { <-free }) {
		t.Fatal("the member is closed")
	}
	resume()
	h.publish(uid, 1, "x")
	resume()
	c := &quorumq.Enqueue{
		Enqueuer: quorumq.EnqueuerKey{Node: "a", Epoch: 1}, First: 2, Messages: []quorumq.NewMessage{{Size: 1, TTLMs: quorumq.Unlimited}},
	}
	applied := make(chan error, 1)
	h.Submit(uid, raftfsm.Command{Header: quorumq.AppendCommand(nil, c), Bodies: [][]byte{[]byte("y")}}, func(_ quorumq.Reply, err error) {
		resume() // the message is assigned, and its delivery is not in the mailbox yet
		applied <- err
	})
	if err := <-applied; err != nil {
		t.Fatal(err)
	}
	release()
	for range cap(answered) {
		if err := <-answered; err != nil {
			t.Error(err)
		}
	}
	h.delivered("x", "y")
}
