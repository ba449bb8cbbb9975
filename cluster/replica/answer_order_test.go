package replica

import (
	"errors"
	"fmt"
	"sync"
	"testing"

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
	if !h.Member(uid).box.post(func() { <-free }) {
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
