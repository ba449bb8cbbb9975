package deadletter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/quorumq"
)

// world is a catalog and the machines of its queues, with faults on the way to them. It
// implements Router and Sender. It is for bubbles of synctest.
type world struct {
	t  testing.TB
	mu sync.Mutex

	chance   *rand.Rand
	faulty   float64 // how likely a command is lost, or its answer, or both are late
	down     map[id.QueueUID]bool
	catalog  *catalog.Catalog
	changed  chan struct{}
	index    uint64
	machines map[id.QueueUID]*machine
	rules    map[string]Rule

	unserved bool          // the view was not confirmed yet
	serves   chan struct{} // closed when that changes
	old      bool          // the view is older than MaxViewAge

	headers   message.Table // of what discard publishes
	moves     bool          // dead letters without a death are fine
	slow      time.Duration // what a Transfer takes
	transfers int
	largest   int // dead letters in one Transfer
}

type machine struct {
	q      *quorumq.Queue
	bodies map[quorumq.BodyRef][]byte
	copies []quorumq.Discarded
}

func newWorld(t testing.TB, seed uint64) *world {
	w := &world{
		t: t, chance: rand.New(rand.NewPCG(seed, seed)), catalog: catalog.New(), changed: make(chan struct{}), serves: make(chan struct{}),
		down: make(map[id.QueueUID]bool), machines: make(map[id.QueueUID]*machine), rules: make(map[string]Rule),
	}
	w.propose(&catalog.RegisterNode{ID: "n", Address: "a", ClientAddress: "b", Epoch: 1})
	return w
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
	close(w.changed)
	w.changed = make(chan struct{})
	return r
}

// declare makes a queue of this name and configuration.
func (w *world) declare(name string, edit func(*quorumq.Config)) id.QueueUID {
	w.t.Helper()
	r := w.propose(&catalog.DeclareQueue{
		VHost: "/", Name: name, Type: catalog.QueueQuorum, Durable: true, Members: []id.NodeID{"n"}, Leader: "n",
	})
	c := quorumq.DefaultConfig()
	if edit != nil {
		edit(&c)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.machines[r.UID] = &machine{q: quorumq.New(r.UID, c), bodies: make(map[quorumq.BodyRef][]byte)}
	return r.UID
}

func (w *world) delete(name string, uid id.QueueUID) {
	w.propose(&catalog.DeleteQueue{VHost: "/", Name: name})
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.machines, uid)
}

func (w *world) bind(queue, key string) {
	w.propose(&catalog.Bind{VHost: "/", Source: "dlx", Destination: queue, Key: key})
}

func (w *world) exchange(kind catalog.ExchangeType) {
	w.propose(&catalog.DeclareExchange{VHost: "/", Name: "dlx", Type: kind, Durable: true})
}

// atLeastOnce is a source's configuration.
func atLeastOnce(c *quorumq.Config) {
	c.DeadLetter, c.Overflow = quorumq.DeadLetterAtLeastOnce, quorumq.OverflowRejectPublish
}

func atMostOnce(c *quorumq.Config) { c.DeadLetter = quorumq.DeadLetterAtMostOnce }

// apply carries a command out on the queue's machine.
func (w *world) apply(uid id.QueueUID, c quorumq.Command, bodies [][]byte) (quorumq.Reply, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.machines[uid]
	if m == nil {
		return quorumq.Reply{}, ErrNoTarget
	}
	w.index++
	for i, b := range bodies {
		m.bodies[quorumq.BodyRef{Index: w.index, Slot: uint32(i)}] = slices.Clone(b)
	}
	r, e := m.q.Apply(quorumq.Meta{Index: w.index, Now: quorumq.Time(time.Now().UnixMilli())}, c)
	m.copies = append(m.copies, e.Copies...)
	r.Refused = slices.Clone(r.Refused)
	if r.Delivery != nil {
		d := *r.Delivery
		r.Delivery = &d
	}
	return r, nil
}

// discard puts messages of these bodies through the queue into its backlog, with this
// reason: rejected by a consumer, or expired.
func (w *world) discard(uid id.QueueUID, reason quorumq.Reason, key string, bodies ...string) {
	w.t.Helper()
	ttl := quorumq.Unlimited
	if reason == quorumq.ReasonExpired {
		ttl = 1
	}
	session := quorumq.SessionKey{Node: "n", Epoch: 1, Session: 1}
	for _, b := range bodies {
		m := message.Message{Headers: w.headers, RoutingKeys: []string{key}, Body: []byte(b)}
		cmd := &quorumq.Enqueue{
			Enqueuer: quorumq.EnqueuerKey{Node: "n", Epoch: 1}, First: w.nextSeq(uid),
			Messages: []quorumq.NewMessage{{Size: uint32(len(b)), TTLMs: ttl, Priority: 4}},
		}
		if r, err := w.apply(uid, cmd, [][]byte{message.Append(nil, &m)}); err != nil || r.Stored != 1 {
			w.t.Fatal(r, err)
		}
		if reason == quorumq.ReasonExpired {
			continue
		}
		r, err := w.apply(uid, &quorumq.Get{Session: session}, nil)
		if err != nil || r.Delivery == nil {
			w.t.Fatal(r, err)
		}
		one := []quorumq.MsgIDRange{{First: r.Delivery.MsgID, Last: r.Delivery.MsgID}}
		if _, err := w.apply(uid, &quorumq.Discard{Consumer: r.Delivery.Consumer, Ranges: one}, nil); err != nil {
			w.t.Fatal(err)
		}
	}
	if reason == quorumq.ReasonExpired {
		time.Sleep(2 * time.Millisecond)
		if _, err := w.apply(uid, &quorumq.Expire{}, nil); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) nextSeq(uid id.QueueUID) quorumq.Seq {
	w.mu.Lock()
	defer w.mu.Unlock()
	return quorumq.Seq(w.machines[uid].q.Overview().Enqueued + 1)
}

// take empties a queue and returns its messages.
func (w *world) take(uid id.QueueUID, limit int) []*message.Message {
	w.t.Helper()
	var out []*message.Message
	for len(out) < limit {
		r, err := w.apply(uid, &quorumq.Get{Session: quorumq.SessionKey{Node: "n", Epoch: 1, Session: 2}, AutoAck: true}, nil)
		if err != nil {
			w.t.Fatal(err)
		}
		if r.Delivery == nil {
			break
		}
		w.mu.Lock()
		b := w.machines[uid].bodies[r.Delivery.Body]
		w.mu.Unlock()
		m, err := message.Decode(b)
		if err != nil {
			w.t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

func (w *world) backlog(uid id.QueueUID) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.machines[uid].q.Overview().Backlog
}

func (w *world) View() *catalog.View {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.catalog.View()
}

func (w *world) Changed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

func (w *world) Rule(_ *catalog.View, q *catalog.QueueRecord) Rule {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rules[q.Name]
}

func (w *world) AlternateExchange(_ *catalog.View, x *catalog.Exchange) (string, bool) {
	return x.AlternateExchange()
}

var errLost = fmt.Errorf("lost on the way: %w", ErrDoubtful)

func (w *world) draw(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.chance.IntN(n)
}

// fate draws what happens to a command.
func (w *world) fate() (lose, loseAnswer bool, delay time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.chance.Float64() < w.faulty {
		delay = time.Duration(w.chance.Int64N(int64(300 * time.Millisecond)))
	}
	return w.chance.Float64() < w.faulty, w.chance.Float64() < w.faulty, delay
}

func (w *world) Transfer(_ context.Context, target id.QueueUID, t *quorumq.Transfer, bodies [][]byte) (quorumq.Reply, error) {
	lose, loseAnswer, delay := w.fate()
	time.Sleep(w.slow + delay) // it ignores the context: what a lost leader has sent may arrive late
	w.mu.Lock()
	w.transfers++
	w.largest = max(w.largest, len(t.DeadLetters))
	lose = lose || w.down[target]
	w.mu.Unlock()
	for i, b := range bodies {
		m, err := message.Decode(b)
		if err != nil || len(m.Body) != int(t.DeadLetters[i].Size) || len(m.Deaths) == 0 && !w.moves {
			w.t.Errorf("dead letter %d: %v, %v", t.DeadLetters[i].Seq, m, err)
		}
	}
	if lose {
		return quorumq.Reply{}, errLost
	}
	r, err := w.apply(target, t, bodies)
	if loseAnswer && err == nil {
		return quorumq.Reply{}, errLost
	}
	return r, err
}

func (w *world) Enqueue(_ context.Context, target id.QueueUID, m quorumq.NewMessage, body []byte, done func(error)) error {
	w.mu.Lock()
	down := w.down[target]
	w.mu.Unlock()
	if down {
		return errLost
	}
	if w.machine(target) == nil {
		return ErrNoTarget
	}
	r, err := w.apply(target, &quorumq.Enqueue{
		Enqueuer: quorumq.EnqueuerKey{Node: "n", Epoch: 1}, First: w.nextSeqRefused(target), Messages: []quorumq.NewMessage{m},
	}, [][]byte{body})
	switch {
	case err == nil && len(r.Refused) > 0:
		err = ErrRefused
	case err == nil && r.Code != quorumq.CodeOK:
		err = fmt.Errorf("code %d", r.Code)
	}
	done(err)
	return nil
}

func (w *world) machine(uid id.QueueUID) *machine {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.machines[uid]
}

func (w *world) nextSeqRefused(uid id.QueueUID) quorumq.Seq {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.machines[uid].q.Overview()
	return quorumq.Seq(o.Enqueued + o.Refused + 1)
}

// term is one term of a queue's leadership: a Source.
type term struct {
	w   *world
	uid id.QueueUID

	mu   sync.Mutex
	over bool
}

var errOver = errors.New("the term is over")

func (s *term) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}

func (s *term) machine() (*machine, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.w.machine(s.uid); m != nil && !s.over {
		return m, nil
	}
	return nil, errOver
}

func (s *term) UID() id.QueueUID { return s.uid }

func (s *term) Backlog(dst []quorumq.Discarded, after quorumq.Seq, limit int) ([]quorumq.Discarded, quorumq.Seq, error) {
	m, err := s.machine()
	if err != nil {
		return dst, 0, err
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return m.q.Backlog(dst, after, limit), m.q.BacklogSettled(), nil
}

func (s *term) Body(ref quorumq.BodyRef) ([]byte, error) {
	m, err := s.machine()
	if err != nil {
		return nil, err
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return m.bodies[ref], nil
}

func (s *term) SettleBacklog(_ context.Context, r []quorumq.SeqRange) error {
	lose, loseAnswer, delay := s.w.fate()
	time.Sleep(delay)
	if _, err := s.machine(); err != nil {
		return err
	}
	if lose {
		return errLost
	}
	_, err := s.w.apply(s.uid, &quorumq.BacklogSettle{Ranges: r}, nil)
	if loseAnswer {
		return errLost
	}
	return err
}
