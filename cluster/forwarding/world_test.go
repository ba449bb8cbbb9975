package forwarding

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/deadletter"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/quorumq"
)

// world is a catalog, the machines of its queues, and what forwards their dead letters by the real Router. It is the
// deadletter.Sender, in place of a gateway. mu guards all but views.
type world struct {
	t     testing.TB
	views *metadata.Views

	mu       sync.Mutex
	catalog  *catalog.Catalog
	index    uint64
	machines map[id.QueueUID]*quorumq.Queue
	bodies   map[quorumq.BodyRef][]byte
	copies   []quorumq.Discarded
	down     bool          // no target can be reached
	held     chan struct{} // if set, copies wait for its end; set while none is sent
	reported []string      // kinds of events, with their causes
}

func newWorld(t testing.TB) (*world, *Forwarders) {
	t.Helper()
	w := &world{t: t, catalog: catalog.New(), machines: map[id.QueueUID]*quorumq.Queue{}, bodies: map[quorumq.BodyRef][]byte{}}
	w.views = metadata.NewViews(w.catalog.View())
	w.propose(&catalog.RegisterNode{ID: "n", Epoch: 1})
	f := New(deadletter.Config{}, Router{Catalog: serving(0), Views: w.views, Policies: new(policy.Matcher)}, w, func(_ id.QueueUID, e event.Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.reported = append(w.reported, string(e.Kind)+" "+e.Cause)
	})
	t.Cleanup(f.Close)
	return w, f
}

func (w *world) propose(c catalog.Command) catalog.Reply {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.index++
	r := w.catalog.Apply(w.index, time.Now().UnixMilli(), c)
	if r.Err != nil {
		w.t.Fatal(r.Err)
	}
	w.views.Publish(w.catalog.View())
	return r
}

// declare makes a queue; the dead letters of one with a strategy go to the queue "target".
func (w *world) declare(name string, strategy quorumq.DeadLetterMode) *term {
	w.t.Helper()
	var args message.Table
	c := quorumq.DefaultConfig()
	if c.DeadLetter = strategy; strategy != quorumq.DeadLetterDisabled {
		c.Overflow = quorumq.OverflowRejectPublish // which at-least-once asks for
		args.Set("x-dead-letter-exchange", message.String(""))
		args.Set("x-dead-letter-routing-key", message.String("target"))
	}
	r := w.propose(&catalog.DeclareQueue{
		VHost: "/", Name: name, Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"n"}, Leader: "n", Arguments: args,
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.machines[r.UID] = quorumq.New(r.UID, c)
	return &term{w, r.UID}
}

// apply carries a command out on a queue's machine.
func (w *world) apply(uid id.QueueUID, c quorumq.Command, bodies ...[]byte) quorumq.Reply {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.index++
	for i, b := range bodies {
		w.bodies[quorumq.BodyRef{Index: w.index, Slot: uint32(i)}] = slices.Clone(b)
	}
	r, e := w.machines[uid].Apply(quorumq.Meta{Index: w.index, Now: quorumq.Time(time.Now().UnixMilli())}, c)
	w.copies = append(w.copies, e.Copies...)
	return r
}

// discard has a consumer of the queue reject a message.
func (w *world) discard(q *term, body string) {
	w.t.Helper()
	m := message.Message{RoutingKeys: []string{"k"}, Body: []byte(body)}
	w.mu.Lock()
	seq := quorumq.Seq(w.machines[q.uid].Overview().Enqueued + 1)
	w.mu.Unlock()
	w.apply(q.uid, &quorumq.Enqueue{
		Enqueuer: quorumq.EnqueuerKey{Node: "n", Epoch: 1}, First: seq,
		Messages: []quorumq.NewMessage{{Size: uint32(len(body)), TTLMs: quorumq.Unlimited}},
	}, message.Append(nil, &m))
	r := w.apply(q.uid, &quorumq.Get{Session: quorumq.SessionKey{Node: "n", Epoch: 1, Session: 1}})
	if r.Delivery == nil {
		w.t.Fatal("nothing to reject")
	}
	w.apply(q.uid, &quorumq.Discard{Consumer: r.Delivery.Consumer, Ranges: []quorumq.MsgIDRange{{First: r.Delivery.MsgID, Last: r.Delivery.MsgID}}})
}

func (w *world) overview(q *term) quorumq.Overview {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.machines[q.uid].Overview()
}

// events returns what was reported, and forgets it.
func (w *world) events() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	reported := w.reported
	w.reported = nil
	return reported
}

func (w *world) setDown(down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = down
}

func (w *world) isDown() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.down
}

// Transfer implements deadletter.Sender.
func (w *world) Transfer(_ context.Context, target id.QueueUID, t *quorumq.Transfer, bodies [][]byte) (quorumq.Reply, error) {
	if w.isDown() {
		return quorumq.Reply{}, deadletter.ErrDoubtful
	}
	return w.apply(target, t, bodies...), nil
}

// Enqueue implements deadletter.Sender.
func (w *world) Enqueue(_ context.Context, target id.QueueUID, m quorumq.NewMessage, body []byte, done func(error)) error {
	if w.isDown() {
		return deadletter.ErrDoubtful
	}
	if w.held != nil {
		<-w.held
	}
	w.mu.Lock()
	seq := quorumq.Seq(w.machines[target].Overview().Enqueued + 1)
	w.mu.Unlock()
	w.apply(target, &quorumq.Enqueue{Enqueuer: quorumq.EnqueuerKey{Node: "n", Epoch: 1}, First: seq, Messages: []quorumq.NewMessage{m}}, body)
	done(nil)
	return nil
}

// term is a queue that this node leads: a deadletter.Source.
type term struct {
	w   *world
	uid id.QueueUID
}

func (s *term) UID() id.QueueUID { return s.uid }

func (s *term) Backlog(dst []quorumq.Discarded, after quorumq.Seq, limit int) ([]quorumq.Discarded, quorumq.Seq, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	q := s.w.machines[s.uid]
	return q.Backlog(dst, after, limit), q.BacklogSettled(), nil
}

func (s *term) Body(ref quorumq.BodyRef) ([]byte, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return s.w.bodies[ref], nil
}

func (s *term) SettleBacklog(_ context.Context, r []quorumq.SeqRange) error {
	s.w.apply(s.uid, &quorumq.BacklogSettle{Ranges: r})
	return nil
}

// serving is a catalog whose view was confirmed so long ago.
type serving time.Duration

func (serving) Serves() bool                     { return true }
func (serving) ServesChanged() <-chan struct{}   { return nil }
func (s serving) ViewAge() (time.Duration, bool) { return time.Duration(s), true }
