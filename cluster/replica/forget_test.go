package replica

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// sources returns the queues that a queue remembers.
func (h *testHost) sources(uid id.QueueUID) (out []id.QueueUID) {
	h.Member(uid).Read(func(q *quorumq.Queue) { out = slices.Sorted(q.Sources()) })
	return out
}

// DL-25: a queue remembers the dead letters of others only while these are there: not of those that were deleted
// before the view in question, of which there are more than one command names, and yet of one that the view does not
// know, because it is from before its creation. Before the version of the command is finalised nothing is forgotten.
func TestForgetsDeletedSources(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	h.mustPropose(&catalog.RegisterNode{ID: "b", Address: "127.0.0.1:2", Epoch: 1, Store: "of b"})
	uid := h.declare("target")
	declare := func(name string) id.QueueUID {
		r := h.mustPropose(&catalog.DeclareQueue{VHost: "/", Name: name, Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"b"}, Leader: "b"})
		h.do(uid, &quorumq.Transfer{Source: r.UID, Settled: 3})
		return r.UID
	}
	for i := range maxForgotten + 1 {
		name := fmt.Sprint("source-", i)
		h.mustPropose(&catalog.DeleteQueue{VHost: "/", Name: name, UID: declare(name)})
	}
	there := declare("there")
	v := h.views.View()
	later := declare("later")
	h.forgetDeleted(v)
	h.poll("the queue forgets those that are gone", func() error {
		if got := h.sources(uid); !slices.Equal(got, []id.QueueUID{there, later}) {
			return fmt.Errorf("it remembers %d: %d", len(got), got[:min(len(got), 5)])
		}
		return nil
	})
}

// Members of an older build cannot read the command.
func TestForgetsNothingByOlderRules(t *testing.T) {
	t.Parallel()
	h := &testHost{t: t, path: t.TempDir(), catalog: catalog.New()}
	h.views = metadata.NewViews(h.catalog.View())
	h.start(nil)
	h.mustPropose(&catalog.RegisterNode{ID: "a", Address: "127.0.0.1:1", Epoch: h.cfg.Epoch})
	h.mustPropose(&catalog.RegisterNode{ID: "b", Address: "127.0.0.1:2", Epoch: 1})
	uid := h.declare("target")
	from := h.mustPropose(&catalog.DeclareQueue{VHost: "/", Name: "source", Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"b"}, Leader: "b"}).UID
	h.do(uid, &quorumq.Transfer{Source: from, Settled: 3})
	h.mustPropose(&catalog.DeleteQueue{VHost: "/", Name: "source"})
	m := h.Member(uid)
	last := m.group.Stats().LastIndex
	h.turn(uid, func() { m.forgetDeleted(h.views.View()) })
	h.do(uid, &quorumq.Expire{})
	if got := m.group.Stats().LastIndex; got != last+1 || !slices.Equal(h.sources(uid), []id.QueueUID{from}) {
		t.Errorf("the log ends at %d, want %d; it remembers %d", got, last+1, h.sources(uid))
	}
}

// DL-25: a view is used when it is as old as deletions must be, also after a round that took long, as when the process
// was stopped for a while.
func TestViewsAreOldWhenUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taken := map[*catalog.View]time.Time{}
		view := func() *catalog.View {
			v := catalog.New().View()
			taken[v] = time.Now()
			return v
		}
		var ages []time.Duration
		use := func(v *catalog.View) {
			ages = append(ages, time.Since(taken[v]))
			if len(ages) == 1 {
				time.Sleep(4*forgetAfter - time.Second)
			}
		}
		stop := make(chan struct{})
		var running sync.WaitGroup
		running.Go(func() { oldViews(view, use, stop) })
		time.Sleep(10 * forgetAfter)
		close(stop)
		running.Wait()
		if len(ages) < 4 {
			t.Errorf("%d rounds", len(ages))
		}
		for i, age := range ages {
			if age < forgetAfter || age > forgetAfter+time.Second {
				t.Errorf("round %d uses a view of %v ago, want %v", i, age, forgetAfter)
			}
		}
	})
}

// DL-25: a Transfer that was on its way for longer than its source is remembered, as through a node that was
// suspended, is not stored again; one from a queue that this node does not know yet is.
func TestTransferOfDeletedSource(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	uid := h.declare("target")
	from := h.declare("source")
	transfer := func(from id.QueueUID) quorumq.Reply {
		t.Helper()
		c := &quorumq.Transfer{Source: from, DeadLetters: []quorumq.DeadLetter{{Seq: 1, NewMessage: quorumq.NewMessage{Size: 1, TTLMs: quorumq.Unlimited}}}}
		replies := make(chan quorumq.Reply, 1)
		h.Submit(uid, raftfsm.Command{Header: quorumq.AppendCommand(nil, c), Bodies: [][]byte{{1}}}, func(r quorumq.Reply, err error) {
			if err != nil {
				t.Error(err)
			}
			replies <- r
		})
		return <-replies
	}
	if r := transfer(from); r.Code != quorumq.CodeOK || r.Stored != 1 {
		t.Fatalf("the first is answered with %+v", r)
	}
	h.mustPropose(&catalog.DeleteQueue{VHost: "/", Name: "source"})
	h.forgetDeleted(h.views.View())
	h.poll("the source is forgotten", func() error {
		if got := h.sources(uid); len(got) > 0 {
			return fmt.Errorf("%d", got)
		}
		return nil
	})
	if r := transfer(from); r.Code != quorumq.CodeSourceGone {
		t.Errorf("the second is answered with %+v", r)
	}
	if _, ready := h.shape(uid); ready != 1 || len(h.sources(uid)) > 0 {
		t.Errorf("%d messages are there, and sources %d", ready, h.sources(uid))
	}
	if r := transfer(h.views.View().NextQueueUID()); r.Code != quorumq.CodeOK || r.Stored != 1 {
		t.Errorf("that of an unknown source is answered with %+v", r)
	}
}
