package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/datadir/sealed"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// A host opens the members that the view names for it. It reports to the parts above who leads, the beginning and end
// of its own terms, and deleted queues. After a restart it opens what is stored.
func TestHostReportsLeaders(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	h.poll("it is ready", func() error { return h.Ready(h.views.View().Index()) })
	stays, goes := h.declare("stays"), h.declare("goes")
	h.publish(stays, 1, "x")
	reported := func(stayLeader, goLeader id.NodeID, terms int, gone ...id.QueueUID) {
		t.Helper()
		h.poll("those above are reported", func() error {
			h.seen.mu.Lock()
			defer h.seen.mu.Unlock()
			if s := &h.seen; s.leader[stays] != stayLeader || s.leader[goes] != goLeader || s.terms != terms || !slices.Equal(s.gone, gone) {
				return fmt.Errorf("leaders %v, %d terms, gone %v", s.leader, s.terms, s.gone)
			}
			return nil
		})
	}
	reported("a", "a", 2)
	if l := h.Loads(h.views.View())["a"]; l != (Load{Replicas: 2, Leaders: 2}) {
		t.Errorf("the node carries %+v", l)
	}
	h.mustPropose(&catalog.DeleteQueue{VHost: "/", Name: "goes", UID: goes})
	reported("a", "a", 1, goes)
	h.poll("nothing is left of it", func() error {
		if h.Member(goes) != nil || h.storage.HasQueue(goes) {
			return errWaiting
		}
		return nil
	})
	h.stop()
	reported("a", "a", 0, goes)

	h.start(nil)
	h.led(stays)
	k := h.consume(stays, "a")
	if ds := h.delivered("x"); ds[0].Consumer != k {
		t.Errorf("delivered to %+v", ds[0].Consumer)
	}
}

// A queue that was created, and opened on demand, while the host followed an older view at its start keeps what it has: its
// files are not left from before.
func TestOpenedOnDemandBeforeTheSweep(t *testing.T) {
	t.Parallel()
	held, free := make(chan struct{}), make(chan struct{})
	hold := sync.OnceFunc(func() { close(held); <-free })
	h := newTestHost(t, func(c *Config) { c.Addressed = func(id.NodeID, string) { hold() } })
	release := sync.OnceFunc(func() { close(free) })
	t.Cleanup(release)
	<-held
	uid := h.mustPropose(&catalog.DeclareQueue{
		VHost: "/", Name: "q", Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"a"}, Leader: "a",
	}).UID
	if !h.Wake(uid) {
		t.Fatal("the queue is not opened")
	}
	h.led(uid)
	h.publish(uid, 1, "x")
	member := h.Member(uid)
	release()
	h.poll("it is ready", func() error { return h.Ready(h.views.View().Index()) })
	if h.Member(uid) != member {
		t.Error("the member was removed")
	}
	h.intact(uid, 1)
}

// A queue that a call of another node opened here does not stay if it is deleted before the host followed the view that
// had it.
func TestOpenedOnDemandAndDeletedUnseen(t *testing.T) {
	t.Parallel()
	h, release := newBusyHost(t)
	uid := h.mustPropose(&catalog.DeclareQueue{
		VHost: "/", Name: "brief", Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"a"}, Leader: "a",
	}).UID
	if !h.Absent(uid.Group()) {
		t.Error("a call for the queue does not wait")
	}
	h.led(uid)
	h.mustPropose(&catalog.DeleteQueue{VHost: "/", Name: "brief", UID: uid})
	release()
	h.poll("nothing is left of it", func() error {
		if h.Member(uid) != nil || h.storage.HasQueue(uid) {
			return errWaiting
		}
		return nil
	})
}

// RE-9: the members of a queue change right after its declaration, because the store of one of its nodes is given up, for
// example, and this node sees both at once. It has not forgotten the queue, but never had it: the queue gets its leader.
func TestChangedBeforeItWasOpened(t *testing.T) {
	t.Parallel()
	h, release := newBusyHost(t)
	uid := h.mustPropose(&catalog.DeclareQueue{
		VHost: "/", Name: "q", Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"a"}, Leader: "a",
	}).UID
	h.mustPropose(&catalog.SetQueueMembers{UID: uid, Members: []id.NodeID{"a"}, Leader: "a"})
	release()
	h.led(uid)
	h.publish(uid, 1, "x")
	if err := h.remove(uid); err != nil { // what it loses now it has forgotten at the next start
		t.Fatal(err)
	}
	h.stop()
	h.start(nil)
	h.poll("the member counts as lost", func() error {
		if !h.keptClosed(uid) {
			return errWaiting
		}
		return nil
	})
}

// cutTransport swallows deliveries. While down is set, it reports that there is no stream for them.
type cutTransport struct {
	Transport
	down atomic.Bool
	left atomic.Int64 // frames
}

func (l *cutTransport) Answer(p transport.Peer, f *nodev1.Frame, unsent func()) error {
	if f.GetDeliveries() == nil {
		return l.Transport.Answer(p, f, unsent)
	}
	if l.down.Load() {
		return fmt.Errorf("%w: made up", transport.ErrNotConnected)
	}
	l.left.Add(1)
	return nil
}

// DEL-8: a delivery for which there was no stream was never sent. While its session ends, its gateway gets nothing of
// it.
func TestNoStreamReturns(t *testing.T) {
	t.Parallel()
	var links cutTransport
	h := newTestHost(t, func(c *Config) { links.Transport, c.Transport = c.Transport, &links })
	uid := h.declare("q")
	h.Inbound(transport.Peer{Node: "b", Epoch: 1}, true)
	gone := h.consume(uid, "b")
	h.publish(uid, 1, "left")
	h.poll("it has left", func() error {
		if links.left.Load() != 1 {
			return errWaiting
		}
		return nil
	})
	links.down.Store(true)
	h.publish(uid, 2, "stayed")

	q, l := h.Member(uid), h.led(uid)
	held := func() error {
		answer := make(chan error, 1)
		h.Held(uid, gone, 2, traffic.NoRoomLimit, func(_ traffic.Holding, err error) { answer <- err })
		return <-answer
	}
	h.poll("it is known that it did not leave", func() error {
		var u quorumq.Unsent
		h.turn(uid, func() { u = l.unsent.of(gone.SessionKey) })
		if len(u.Ranges) != 1 || u.Ranges[0] != (quorumq.MsgIDRange{First: 2, Last: 2}) {
			return fmt.Errorf("%+v", u)
		}
		return nil
	})
	h.turn(uid, func() { l.unsent.closing[gone.SessionKey] = struct{}{} })
	if err := held(); !errors.Is(err, raftfsm.ErrBusy) {
		t.Errorf("while its session ends it gets an answer: %v", err)
	}
	h.turn(uid, func() { q.closeUnsent(l, gone.SessionKey, l.unsent.of(gone.SessionKey)) })
	h.poll("the session has ended", func() error {
		if err := held(); !errors.Is(err, traffic.ErrConsumerGone) {
			return fmt.Errorf("%w: %w", errWaiting, err)
		}
		return nil
	})
	h.consume(uid, "a")
	ds := h.delivered("left", "stayed")
	if d := ds[0]; d.DeliveryCount != 1 || d.AcquiredCount != 1 {
		t.Errorf("%+v", d)
	}
	if d := ds[1]; d.DeliveryCount != 0 || d.AcquiredCount != 1 {
		t.Errorf("%+v", d)
	}
}

// the record of an unused queue has the state that empties the queue before the queue itself learns of it. Until
// then the queue asks for its deletion again, with all its messages in it.
func TestUnusedDrainDeletesBeforeItGoes(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	text := func(name, s string) message.Field { return message.Field{Name: name, Value: message.String(s)} }
	uid := h.declare("orders", text("x-dead-letter-exchange", "nowhere"), text("x-dead-letter-strategy", "at-least-once"),
		text("x-overflow", "reject-publish"), text("x-on-delete", "dead-letter"))
	held, free := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(free) })
	t.Cleanup(release)
	h.Member(uid).box.Post(func() { close(held); <-free })
	<-held
	h.publish(uid, 1, "hello")
	h.policy("expires", 1)
	r, _ := h.views.View().QueueByUID(uid)
	h.do(uid, &quorumq.Configure{Config: h.queueConfig(h.views.View(), r)}) // its mailbox is held
	h.poll("the record says that the queue is emptied", func() error {
		if r, ok := h.views.View().QueueByUID(uid); ok && r.DrainDeleting == 0 {
			return errWaiting
		}
		return nil
	})
	h.deleteUnused(t.Context(), uid)
	if _, ok := h.views.View().QueueByUID(uid); !ok {
		t.Fatal("the queue was deleted with a message in it")
	}

	release()
	h.poll("the message is a dead letter", func() error {
		var o quorumq.Overview
		h.Member(uid).Read(func(q *quorumq.Queue) { o = q.Overview() })
		if o.Backlog != 1 {
			return errWaiting
		}
		return nil
	})
	h.do(uid, &quorumq.BacklogSettle{Ranges: []quorumq.SeqRange{{First: 1, Last: 1}}})
	h.poll("the queue goes", func() error {
		if _, ok := h.views.View().QueueByUID(uid); ok {
			return errWaiting
		}
		return nil
	})
}

// deletesAfter is a catalog in which something else comes before each deletion of a queue.
type deletesAfter struct {
	Catalog
	first func()
}

func (c *deletesAfter) Propose(ctx context.Context, cmd catalog.Command) (catalog.Reply, error) {
	if _, deletes := cmd.(*catalog.DeleteQueue); deletes {
		c.first()
	}
	return c.Catalog.Propose(ctx, cmd)
}

// what comes between the decision that a queue is empty and the end of its record would go with it, so it is
// refused: a publish routed by an older view, and a dead letter of another queue.
func TestEmptiedQueueTakesNothing(t *testing.T) {
	t.Parallel()
	late := &deletesAfter{}
	h := newTestHost(t, func(c *Config) { late.Catalog, c.Catalog = c.Catalog, late })
	dlx := message.Field{Name: "x-dead-letter-exchange", Value: message.String("nowhere")}
	uid := h.declare("orders", dlx, message.Field{Name: "x-on-delete", Value: message.String("dead-letter")})
	commands := []quorumq.Command{
		&quorumq.Enqueue{Enqueuer: quorumq.EnqueuerKey{Node: "a", Epoch: 1}, First: 1, Messages: []quorumq.NewMessage{{Size: 1, TTLMs: quorumq.Unlimited}}},
		&quorumq.Transfer{Source: 1 << 40, DeadLetters: []quorumq.DeadLetter{{Seq: 1, NewMessage: quorumq.NewMessage{Size: 1, TTLMs: quorumq.Unlimited}}}},
	}
	replies := make([]quorumq.Reply, len(commands))
	late.first = sync.OnceFunc(func() {
		for i, c := range commands {
			replies[i] = h.answer(uid, c)
		}
	})
	h.mustPropose(&catalog.DrainDeleteQueue{VHost: "/", Name: "orders", UID: uid})
	h.turn(uid, h.Member(uid).heedRecord)
	h.poll("the queue goes", func() error {
		if _, ok := h.views.View().QueueByUID(uid); ok {
			return errWaiting
		}
		return nil
	})
	for i, c := range commands {
		_, publish := c.(*quorumq.Enqueue)
		if r := replies[i]; publish != (r.Code == quorumq.CodeDrainDeleting) || r.Stored != 0 || len(r.Refused) != 1 {
			t.Errorf("%T is answered with %+v, and the queue is deleted", c, r)
		}
	}
}

// A hibernation record counts only for the log from which it was made.
func TestNotes(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, func(c *Config) { c.HibernateAfter = 20 * time.Millisecond })
	uid := h.shared("a")
	h.poll("the queue hibernates", func() error {
		if h.sleeper(uid) == nil || h.Member(uid) != nil {
			return errWaiting
		}
		return nil
	})
	h.poll("the node has written its first hibernation records, and writes none for a while", func() error {
		_, err := sealed.ReadCopy(h.path, asleepFile, 0)
		return err
	})
	term, last, ok := h.storage.Ends(uid.Group())
	if !ok || last == 0 {
		t.Fatalf("the log ends in term %d at %d, %v", term, last, ok)
	}
	for _, x := range []struct {
		name  string
		value string
		taken bool
	}{
		{"true", fmt.Sprintf(`{"term":%d,"last":%d,"due":7,"leader":"a"}`, term, last), true},
		{"another term", fmt.Sprintf(`{"term":%d,"last":%d,"leader":"a"}`, term-1, last), false},
		{"another entry", fmt.Sprintf(`{"term":%d,"last":%d,"leader":"a"}`, term, last-1), false},
		{"not read", `{"term":"x"}`, false},
		{"status not read", fmt.Sprintf(`{"term":%d,"last":%d,"leader":"a","status":"/w=="}`, term, last), false},
	} {
		if err := sealed.Write(h.path, asleepFile, 0, sealed.Record{}.With(fmt.Sprint(uint64(uid)), x.value)); err != nil {
			t.Fatal(err)
		}
		again := New(h.cfg)
		a := again.asleep[uid]
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
		if (a != nil) != x.taken {
			t.Errorf("%s: %+v", x.name, a)
		}
		if x.taken && (a.leader != "a" || a.due != 7) {
			t.Errorf("%s: read %+v", x.name, a)
		}
	}
}

// A hibernating queue is not woken for newer rules alone.
func TestRulesWakeNobody(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	uid := h.declare("orders")
	v := h.views.View()
	r, _ := v.QueueByUID(uid)
	has := h.queueConfig(v, r)
	if has.Rules != quorumq.NewestRules {
		t.Fatalf("rules %d, want %d", has.Rules, quorumq.NewestRules)
	}
	has.Rules = quorumq.RulesFirst
	if h.settingsDiffer(v, r, has) {
		t.Error("a queue with the same settings and older rules would be woken")
	}
	has.MaxLength = 7
	if !h.settingsDiffer(v, r, has) {
		t.Error("a queue with other settings would not be woken")
	}
}
