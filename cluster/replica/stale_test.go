package replica

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// begun waits until this node leads a queue, and has begun what it does when it begins to lead.
func (h *testHost) begun(uid id.QueueUID) {
	h.t.Helper()
	h.poll("it leads", func() error {
		if m := h.Member(uid); m == nil || m.Led() == nil {
			return errWaiting
		}
		return nil
	})
	h.do(uid, &quorumq.Renew{}) // applied after the Lead command, so its tasks are in the mailbox
	h.turn(uid, func() {})
	h.do(uid, &quorumq.Renew{}) // applied after what those have proposed
}

// policy puts a policy with one key in force for all queues.
func (h *testHost) policy(key string, value int64) {
	h.t.Helper()
	h.mustPropose(&catalog.PutPolicy{Policy: catalog.Policy{
		VHost: "/", Name: "all", Pattern: ".*", ApplyTo: catalog.ApplyToQueues,
		Definition: message.Table{{Name: key, Value: message.Int64(value)}},
	}})
}

// shape returns a queue's configuration and the number of its ready messages.
func (h *testHost) shape(uid id.QueueUID) (c quorumq.Config, ready uint64) {
	h.t.Helper()
	m := h.Member(uid)
	if m == nil {
		h.t.Fatal("the queue is gone")
	}
	m.Read(func(q *quorumq.Queue) { c, ready = q.Config(), q.Overview().Ready })
	return c, ready
}

// unlimited is the configuration of a queue for which nothing is set.
func unlimited() quorumq.Config {
	c := quorumq.DefaultConfig()
	c.ConsumerTimeoutMs, c.Rules = 1_800_000, quorumq.NewestRules // CT-1
	return c
}

// intact waits until a queue has the newest configuration, by which nothing is limited, and checks that
// its messages are there.
func (h *testHost) intact(uid id.QueueUID, messages uint64) {
	h.t.Helper()
	h.poll("the newest configuration is in force", func() error {
		if c, _ := h.shape(uid); c != unlimited() {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
	if _, ready := h.shape(uid); ready != messages {
		h.t.Errorf("%d messages are left of %d", ready, messages)
	}
	if _, exists := h.catalogView().QueueByUID(uid); !exists {
		h.t.Error("the queue was deleted")
	}
}

// a new leader whose view is behind puts nothing in force that has changed since: neither
// before its view was confirmed in this life, nor when it lags behind that of the leader before.
func TestOldViewConfiguresNothing(t *testing.T) {
	t.Parallel()
	for name, serves := range map[string]bool{"after a start": false, "at a failover": true} {
		for key, value := range map[string]int64{"max-length": 1, "message-ttl": 0, "expires": 1} {
			t.Run(name+"/"+key, func(t *testing.T) {
				t.Parallel()
				h := newTestHost(t, nil)
				uid := h.declare("q")
				h.publish(uid, 1, "x", "y", "z")
				h.stop()
				h.policy(key, value)
				old := h.catalogView()
				h.mustPropose(&catalog.DeletePolicy{VHost: "/", Name: "all"})

				h.restartBehind(old, serves)
				h.begun(uid)
				h.do(uid, &quorumq.Expire{})
				if c, ready := h.shape(uid); ready != 3 || c != unlimited() {
					t.Fatalf("%d messages are left of 3, configuration %+v", ready, c)
				}
				h.catchUp()
				h.intact(uid, 3)
			})
		}
	}
}

// asking is a context that records when somebody first waits for its end: whoever deletes an unused queue does so
// when it has begun to ask for a confirmed view.
type asking struct {
	context.Context
	once  sync.Once
	begun chan struct{}
}

func (a *asking) Done() <-chan struct{} {
	a.once.Do(func() { close(a.begun) })
	return a.Context.Done()
}

// QX-1: a queue that has expired by its settings is not deleted by a leader whose view does not show
// yet that it is no longer to expire: neither while the view is not confirmed, nor when it is confirmed in the middle
// of a deletion.
func TestOldViewDeletesNothing(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	h.confirms(false) // else a slow machine deletes it before the host stops
	h.policy("expires", 500)
	uid := h.declare("q")
	h.publish(uid, 1, "x")
	h.stop()
	h.confirms(true)
	old := h.catalogView()
	h.mustPropose(&catalog.DeletePolicy{VHost: "/", Name: "all"})

	h.restartBehind(old, true)
	h.begun(uid)
	h.poll("it has expired", func() error {
		unused := false
		if m := h.Member(uid); m != nil {
			m.Read(func(q *quorumq.Queue) { unused = q.Unused() })
		}
		if !unused {
			return errWaiting
		}
		return nil
	})
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	h.deleteUnused(soon, uid)
	if _, exists := h.catalogView().QueueByUID(uid); !exists {
		t.Fatal("it was deleted by a view that nobody has confirmed")
	}
	middle, done := &asking{Context: t.Context(), begun: make(chan struct{})}, make(chan struct{})
	go func() {
		defer close(done)
		h.deleteUnused(middle, uid)
	}()
	<-middle.begun
	h.catchUp()
	<-done
	h.intact(uid, 1)
}

// limited waits until a queue's length limit is in force.
func (h *testHost) limited(uid id.QueueUID, most int64) {
	h.t.Helper()
	h.poll("the limit is in force", func() error {
		if c, _ := h.shape(uid); c.MaxLength != most {
			return fmt.Errorf("max-length %d", c.MaxLength)
		}
		return nil
	})
}

// A change of the settings that comes while a leader leads is put in force when its view is confirmed,
// with the newest view that there is by then.
func TestConfiguresWhenConfirmed(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	uid := h.declare("q")
	h.restartBehind(h.catalogView(), false)
	h.led(uid) // what is in force is what the view says, so there is nothing to confirm
	h.policy("max-length", 5)
	h.mustPropose(&catalog.DeletePolicy{VHost: "/", Name: "all"})
	h.policy("max-length", 7)
	h.catchUp()
	h.limited(uid, 7)
}

// Settings that go back to what they were, while a change of them is on its way to the log, end as the
// view has them.
func TestSettingsThatGoBack(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	uid := h.declare("q")
	h.policy("max-length", 5)
	h.limited(uid, 5)
	m := h.Member(uid)
	h.turn(uid, func() {
		h.policy("max-length", 7)
		m.configure()
		h.policy("max-length", 5)
		m.configure() // the other one is not applied yet
	})
	h.do(uid, &quorumq.Renew{})
	h.limited(uid, 5)
}

// DC-1: a node that was forgotten, and whose next life is connected, is not taken for the one that never comes back,
// though this node's view does not show its return yet.
func TestReturnedNodeSpeaks(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	uid := h.declare("q")
	const before, now = 5, 9
	h.mustPropose(&catalog.RegisterNode{ID: "b", Address: "127.0.0.1:2", Epoch: before, Store: "first", Fresh: true})
	consume := func(epoch id.Epoch) {
		h.do(uid, &quorumq.Checkout{Consumer: quorumq.ConsumerKey{SessionKey: quorumq.SessionKey{Node: "b", Epoch: epoch, Session: 1}, Tag: 1}})
	}
	sessions := func() (of []id.Epoch) {
		h.Member(uid).Read(func(q *quorumq.Queue) {
			for s := range q.Sessions() {
				of = append(of, s.Epoch)
			}
		})
		return of
	}
	consume(before)
	h.mustPropose(&catalog.ForgetNode{ID: "b"})
	h.poll("the sessions of the node have ended", func() error {
		if of := sessions(); len(of) > 0 {
			return fmt.Errorf("those of %v are there", of)
		}
		return nil
	})
	h.Inbound(transport.Peer{Node: "b", Epoch: now}, true)
	consume(now)
	h.turn(uid, h.Member(uid).checkNodes)
	consume(now)
	if of := sessions(); len(of) != 1 || of[0] != now {
		t.Errorf("sessions of %v", of)
	}
}
