package session

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quorate/quorate/quorumq"
)

// TestLossyChannel runs publishers and consumers against a real queue, over a channel that loses,
// repeats and reorders messages in both directions, with changes of leader in between. What was
// accepted comes out once, in the order of its publisher. What was not accepted never comes out
// (PUB-5, PUB-6, DEL-12).
func TestLossyChannel(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 15
	}
	for seed := range seeds {
		for _, mode := range []mode{
			{name: "order"},
			{name: "limits", limit: 20},
			{name: "voids", limit: 30, voids: true},
			{name: "outcomes", outcomes: true, consumers: 3},
		} {
			t.Run(fmt.Sprintf("%s/seed=%d", mode.name, seed), func(t *testing.T) {
				w := newWorld(t, mode, seed)
				for range 2000 {
					w.step()
				}
				w.heal()
				w.verify()
			})
		}
	}
}

type mode struct {
	name      string
	limit     int64 // max-length with reject-publish; 0: none
	voids     bool
	outcomes  bool // returns and discards as well as settles
	consumers int  // 0: one
}

// world is a queue with its log of bodies, two publishers, some consumers, and everything that is
// on its way between them.
type world struct {
	t     *testing.T
	mode  mode
	rng   *rand.Rand
	q     *quorumq.Queue
	dec   quorumq.Decoder
	index uint64
	log   map[quorumq.BodyRef]string
	net   []func() // each arrives at most a few times, in any order
	quiet bool     // without further losses

	pubs   []*Publisher[string]
	pushed [][]string
	cons   []*Consumer

	accepted map[string]bool // by the publisher's answer
	out      []string        // settled by consumers, in the order of first delivery
	gone     map[string]int  // how often it has left the queue: settled or dead-lettered
}

func newWorld(t *testing.T, m mode, seed uint64) *world {
	c := quorumq.DefaultConfig()
	c.DeadLetter = quorumq.DeadLetterAtMostOnce
	c.DeliveryLimit = quorumq.Unlimited
	if m.limit > 0 {
		c.MaxLength, c.Overflow = m.limit, quorumq.OverflowRejectPublish
	}
	w := &world{
		t: t, mode: m, rng: rand.New(rand.NewPCG(seed, 1)),
		q: quorumq.New(1024, c), log: make(map[quorumq.BodyRef]string),
		accepted: make(map[string]bool), gone: make(map[string]int),
	}
	for i := range 2 {
		key := quorumq.EnqueuerKey{Node: "n1", Epoch: 1}
		if i == 1 {
			key.Node = "n2"
		}
		w.pubs = append(w.pubs, NewPublisher[string](key, Limits{WindowMessages: 50}))
		w.pushed = append(w.pushed, nil)
	}
	for i := range max(m.consumers, 1) {
		k := quorumq.ConsumerKey{SessionKey: quorumq.SessionKey{Node: "n1", Epoch: 1, Session: uint64(i)}, Tag: 1}
		r := w.apply(&quorumq.Checkout{Consumer: k, Prefetch: 20}, nil)
		w.cons = append(w.cons, NewConsumer(k, r.LastMsgID))
	}
	return w
}

// apply passes a command through its stored form to the queue, as one entry.
func (w *world) apply(c quorumq.Command, bodies [][]byte) quorumq.Reply {
	w.index++
	decoded, err := w.dec.Decode(quorumq.AppendCommand(nil, c))
	if err != nil {
		w.t.Fatal(err)
	}
	for i, b := range bodies {
		w.log[quorumq.BodyRef{Index: w.index, Slot: uint32(i)}] = string(b)
	}
	r, e := w.q.Apply(quorumq.Meta{Index: w.index, Now: quorumq.Time(w.index)}, decoded)
	r.Refused = slices.Clone(r.Refused)
	for _, d := range e.Deliver {
		w.send(func() { w.arrive(d) })
	}
	for _, d := range e.Copies {
		w.gone[w.log[d.Body]]++
	}
	return r
}

// send puts a call on its way.
func (w *world) send(f func()) { w.net = append(w.net, f) }

// carry lets one call arrive or get lost. Now and then it arrives again later.
func (w *world) carry() {
	if len(w.net) == 0 {
		return
	}
	i := 0
	if !w.quiet {
		i = w.rng.IntN(min(len(w.net), 6))
	}
	f := w.net[i]
	switch p := w.rng.IntN(20); {
	case w.quiet || p > 1:
		w.net = slices.Delete(w.net, i, i+1)
		f()
	case p == 0:
		w.net = slices.Delete(w.net, i, i+1)
	default:
		f()
	}
}

func (w *world) step() {
	switch p := w.rng.IntN(100); {
	case p < 20:
		w.push(w.rng.IntN(len(w.pubs)))
	case p < 35:
		w.pump(w.rng.IntN(len(w.pubs)))
	case p < 45:
		w.decide(w.rng.IntN(len(w.cons)))
	case p < 55:
		w.settle(w.rng.IntN(len(w.cons)))
	case p < 56:
		w.changeLeader()
	case p < 57 && w.mode.voids:
		w.void(w.rng.IntN(len(w.pubs)))
	default:
		w.carry()
	}
}

func (w *world) push(i int) {
	body := fmt.Sprintf("%d/%d", i, len(w.pushed[i]))
	msg := quorumq.NewMessage{Size: uint32(len(body)), TTLMs: quorumq.Unlimited, Priority: quorumq.DefaultPriority}
	if w.pubs[i].Push(msg, []byte(body), body) {
		w.pushed[i] = append(w.pushed[i], body)
	}
}

// pump sends a batch.
func (w *world) pump(i int) {
	p := w.pubs[i]
	c, bodies, ok := p.NextBatch(1+w.rng.IntN(6), 40)
	if !ok {
		return
	}
	w.send(func() {
		r := w.apply(&c, bodies)
		w.send(func() { p.Answer(c.First, len(c.Messages), r, w.answered) })
	})
}

func (w *world) answered(body string, accepted bool) {
	if _, twice := w.accepted[body]; twice {
		w.t.Fatalf("%s is answered twice", body)
	}
	w.accepted[body] = accepted
}

func (w *world) void(i int) {
	w.pubs[i].Void(func(string) bool { return w.rng.IntN(3) == 0 }, w.answered)
}

func (w *world) arrive(d quorumq.Delivery) {
	for _, c := range w.cons {
		if c.Key() != d.Consumer {
			continue
		}
		switch c.Deliver(d, false) {
		case New:
			w.received(d)
		case Missing:
			w.resume(c)
		case Repeat:
		}
	}
}

func (w *world) received(d quorumq.Delivery) {
	if d.AcquiredCount == 0 {
		w.out = append(w.out, w.log[d.Body])
	}
}

func (w *world) resume(c *Consumer) {
	after := c.Last()
	w.send(func() {
		ds := w.q.Assigned(nil, c.Key(), after)
		last, _ := w.q.LastMsgID(c.Key())
		w.send(func() { c.Resumed(ds, last, w.received) })
	})
}

// decide makes the client of a consumer decide about some of its messages.
func (w *world) decide(i int) {
	c := w.cons[i]
	if c.Unsettled() == 0 {
		return
	}
	back := quorumq.MsgID(w.rng.IntN(12))
	r := quorumq.MsgIDRange{First: max(c.Last(), back+1) - back, Last: c.Last() - min(c.Last(), quorumq.MsgID(w.rng.IntN(3)))}
	if w.quiet {
		r.First = 1
		r.Last = c.Last()
	}
	if r.Last < r.First {
		return
	}
	switch p := w.rng.IntN(4); {
	case w.mode.outcomes && p == 0 && !w.quiet:
		c.Requeue(r, w.rng.IntN(2) == 0, nil, quorumq.Delay{})
	case w.mode.outcomes && p == 1:
		c.Discard(r, false, nil)
	default:
		for _, d := range w.q.Assigned(nil, c.Key(), r.First-1) {
			if d.MsgID <= r.Last && c.Settle(quorumq.MsgIDRange{First: d.MsgID, Last: d.MsgID}) == 1 {
				w.gone[w.log[d.Body]]++
			}
		}
	}
}

// settle sends an outcome.
func (w *world) settle(i int) {
	c := w.cons[i]
	cmd, number, _, ok := c.Next()
	if !ok {
		return
	}
	w.send(func() {
		r := w.apply(cmd, nil)
		w.send(func() { c.Answer(number, r) })
	})
}

// changeLeader loses everything that is on its way, or nothing.
func (w *world) changeLeader() {
	if w.rng.IntN(2) == 0 {
		w.net = nil
	}
	w.apply(&quorumq.Lead{Node: "n1", Term: w.index}, nil)
	w.rewind()
}

func (w *world) rewind() {
	for _, p := range w.pubs {
		p.Rewind()
	}
	for _, c := range w.cons {
		c.Rewind()
		w.resume(c)
	}
}

// heal runs without losses until everything is answered and settled.
func (w *world) heal() {
	w.quiet = true
	for range 1000 {
		w.rewind()
		for range 200 {
			for i := range w.pubs {
				w.pump(i)
			}
			for i := range w.cons {
				w.decide(i)
				w.settle(i)
			}
			for len(w.net) > 0 {
				w.carry()
			}
		}
		if w.settled() {
			return
		}
	}
	w.t.Fatalf("not settled: %d and %d pending, overview %+v", w.pubs[0].Pending(), w.pubs[1].Pending(), w.q.Overview())
}

func (w *world) settled() bool {
	o := w.q.Overview()
	n := o.Ready + o.Unsettled
	for _, p := range w.pubs {
		n += uint64(p.Pending())
	}
	for _, c := range w.cons {
		n += uint64(c.Unsettled() + c.Unanswered())
	}
	return n == 0
}

func (w *world) verify() {
	for i, pushed := range w.pushed {
		var want, got []string
		for _, body := range pushed {
			accepted, answered := w.accepted[body]
			if !answered {
				w.t.Errorf("%s has no answer", body)
			}
			if accepted {
				want = append(want, body)
			}
			if accepted && w.gone[body] != 1 || !accepted && w.gone[body] != 0 {
				w.t.Errorf("%s: accepted %t, left the queue %d times", body, accepted, w.gone[body])
			}
		}
		for _, body := range w.out {
			if body[0] == '0'+byte(i) {
				got = append(got, body)
			}
		}
		if w.mode.consumers == 0 && !slices.Equal(got, want) {
			w.t.Errorf("publisher %d: received %v, accepted %v", i, got, want)
		}
		if len(want) < 20 {
			w.t.Errorf("publisher %d had only %d messages accepted: the test shows nothing", i, len(want))
		}
	}
}

// An answer to a resume that lacks what the consumer holds, which none should, loses nothing: the messages come again.
func TestWrongAnswerLosesNothing(t *testing.T) {
	w := newWorld(t, mode{}, 1)
	for range 3 {
		w.push(0)
	}
	w.pump(0)
	c := w.cons[0]
	for w.q.Overview().Unsettled < 3 {
		w.net[0]() // the publish: what it sends is lost
	}
	c.Resumed(nil, 3, func(quorumq.Delivery) {})
	cmd, number, _, _ := c.Next()
	c.Answer(number, w.apply(cmd, nil))
	if o := w.q.Overview(); o.Unsettled != 3 {
		t.Fatalf("%d messages are left, want 3", o.Ready+o.Unsettled)
	}
	for i, d := range w.q.Assigned(nil, c.Key(), 3) {
		if d.AcquiredCount != 1 || d.DeliveryCount != 0 || w.log[d.Body] != w.pushed[0][i] {
			t.Errorf("%q comes again after %d deliveries and %d failures", w.log[d.Body], d.AcquiredCount, d.DeliveryCount)
		}
	}
}
