package quorumq

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quorate/quorate/id"
)

// testSubscriptions returns the subscriptions with a session of n consumers on one node, with tags
// from 1, and those consumers.
func testSubscriptions(single bool, n int) (*subscriptions, []*consumer) {
	s := new(subscriptions)
	s.init(single)
	node := &node{id: "n1", epoch: 1}
	k := ConsumerKey{SessionKey: SessionKey{Node: "n1", Epoch: 1, Session: 1}}
	var cs []*consumer
	for range n {
		k.Tag++
		c := s.register(node, k)
		s.subscribe(c, &Checkout{Consumer: k})
		cs = append(cs, c)
	}
	return s, cs
}

// nodesOf returns the nodes of the sessions.
func nodesOf(s *subscriptions) *nodes {
	ns := &nodes{}
	ns.byID = make(map[id.NodeID]*node)
	for _, x := range s.order {
		ns.byID[x.node.id] = x.node
	}
	return ns
}

// give assigns a message to the next consumer, and returns that consumer.
func give(s *subscriptions, ord uint64, now Time, timeoutMs int64) *consumer {
	c := s.waiters.next()
	if c == nil {
		return nil
	}
	a := s.unacked.assign(c, &held{message: message{ord: ord << ordBits, size: 1, ttl: Unlimited}})
	s.deadlines.start(c, &a, now, timeoutMs)
	s.unacked.hold(c, &a, s.gen)
	s.waiters.wake(c)
	return c
}

// settleAll settles everything that a consumer holds.
func settleAll(s *subscriptions, c *consumer) {
	w := &c.held
	w.own(s.gen)
	for a := range w.all() {
		s.unacked.remove(a.size)
		w.remove(a)
	}
	w.tidy()
	s.settled(c)
}

// TestWaitersGoRound shows which consumer is next: of those with the highest priority, the one that
// has waited longest (DEL-2).
func TestWaitersGoRound(t *testing.T) {
	s, cs := testSubscriptions(false, 4)
	high := &Checkout{Consumer: cs[3].key, Priority: 7, Prefetch: 2}
	s.subscribe(cs[3], high)
	var got []uint32
	for ord := range uint64(7) {
		got = append(got, give(s, ord+1, 0, 0).key.Tag)
		if err := s.check(nodesOf(s), 0, 100); err != nil {
			t.Fatal(err)
		}
	}
	if want := []uint32{4, 4, 1, 2, 3, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("tags %v, want %v", got, want)
	}
	s.waiters.leave(cs[2])
	settleAll(s, cs[3])
	if a, b, c := give(s, 8, 0, 0), give(s, 9, 0, 0), give(s, 10, 0, 0); a != cs[3] || b != cs[3] || c != cs[0] {
		t.Errorf("tags %d, %d, %d, want 4, 4, 1", a.key.Tag, b.key.Tag, c.key.Tag)
	}
	for _, c := range cs {
		s.unsubscribe(c)
	}
	if s.waiters.any() || s.waiters.next() != nil {
		t.Error("somebody waits who has gone")
	}
}

// TestCreditRunsOut shows that a consumer without credit is skipped, and waits again once it has
// more.
func TestCreditRunsOut(t *testing.T) {
	s, cs := testSubscriptions(false, 2)
	s.subscribe(cs[0], &Checkout{Consumer: cs[0].key, Credit: true, Limit: 1})
	s.subscribe(cs[1], &Checkout{Consumer: cs[1].key, Prefetch: 2})
	for ord := uint64(1); give(s, ord, 0, 0) != nil; ord++ {
		if err := s.check(nodesOf(s), 0, 100); err != nil {
			t.Fatal(err)
		}
	}
	if cs[0].last != 1 || cs[1].last != 2 || s.unacked.messages != 3 {
		t.Errorf("%d and %d messages are assigned, %d are held", cs[0].last, cs[1].last, s.unacked.messages)
	}
	cs[0].limit = 2
	s.waiters.wake(cs[0])
	if give(s, 9, 0, 0) != cs[0] || cs[0].last != 2 {
		t.Error("more credit is of no use")
	}
	cs[0].limit = 3
	s.waiters.wake(cs[0])
	cs[0].session.node.suspected = true // while it stands in line
	if c := give(s, 10, 0, 0); c != nil || cs[0].waiting {
		t.Errorf("consumer %v gets a message, and may not", c)
	}
}

// TestSingleActiveChanges shows which consumer is active (SAC-1, SAC-2): of those with the highest
// priority, the one that registered first, once the one before it holds nothing. All are notified,
// each once.
func TestSingleActiveChanges(t *testing.T) {
	s, cs := testSubscriptions(true, 3)
	check := func(active *consumer, want ...Notice) {
		t.Helper()
		if s.single.active != active {
			t.Errorf("active is %v", s.single.active)
		}
		if !slices.Equal(s.notices, want) {
			t.Errorf("notices %v, want %v", s.notices, want)
		}
		s.notices = nil
		if err := s.check(nodesOf(s), 0, 100); err != nil {
			t.Error(err)
		}
	}
	active := func(c *consumer) Notice { return Notice{Consumer: c.key, Kind: NoticeActive} }
	waits := func(c *consumer) Notice { return Notice{Consumer: c.key, Kind: NoticeWaiting} }
	check(cs[0], active(cs[0]), waits(cs[1]), waits(cs[2]))
	if give(s, 1, 0, 0) != cs[0] || give(s, 2, 0, 0) != cs[0] {
		t.Fatal("another one than the active consumer gets messages")
	}
	s.subscribe(cs[2], &Checkout{Consumer: cs[2].key, Priority: 1})
	check(cs[0], waits(cs[2])) // it still holds messages
	if c := give(s, 3, 0, 0); c != nil {
		t.Errorf("consumer %v gets a message meanwhile", c.key)
	}
	settleAll(s, cs[0])
	check(cs[2], waits(cs[0]), active(cs[2]))
	s.unsubscribe(cs[2])
	s.elect()
	s.dismiss(cs[2])
	check(cs[0], active(cs[0]))
	s.single.set(false, s.order, &s.waiters, &s.notices)
	check(nil, active(cs[1]))
	s.single.set(true, s.order, &s.waiters, &s.notices)
	check(cs[0], waits(cs[0]), waits(cs[1]), active(cs[0]))
}

// TestAckDeadlinesAreBounds shows that a delivery that is unsettled for too long is revoked in
// time, and once, and that an extension counts. It shows that a bound that a settled delivery has
// left behind is corrected (CT-1, CT-5).
func TestAckDeadlinesAreBounds(t *testing.T) {
	s, cs := testSubscriptions(false, 1)
	c := cs[0]
	give(s, 1, 0, 1000)
	give(s, 2, 600, 1000)
	give(s, 3, 600, 1000)
	if s.deadlines.due != 1000 || s.revokeDue(999) != 0 {
		t.Fatalf("due at %d", s.deadlines.due)
	}
	if n := c.extend([]MsgIDRange{{First: 3, Last: 9}}, ackDeadline(600, 2000), s.gen); n != 1 {
		t.Fatalf("%d deadlines are extended", n)
	}
	settle := func(m MsgID) {
		w := &c.held
		w.own(s.gen)
		a := &w.items[w.search(m)]
		s.unacked.remove(a.size)
		w.remove(a)
		w.tidy()
	}
	settle(1)
	if n := s.revokeDue(1000); n != 0 || s.deadlines.due != 1750 { // 600 + 1000, rounded up
		t.Fatalf("%d deliveries are revoked, the next is due at %d", n, s.deadlines.due)
	}
	if n := s.revokeDue(1800); n != 1 || s.leaving[0].id != 2 || s.deadlines.due != 2750 {
		t.Fatalf("%d deliveries are revoked, the next is due at %d", n, s.deadlines.due)
	}
	s.unacked.remove(1)
	if err := s.check(nodesOf(s), 1800, 100); err != nil {
		t.Error(err)
	}
	if c.canTake() || !slices.Equal(c.late, []MsgID{2}) {
		t.Errorf("it has not answered for %v", c.late)
	}
	if s.answerLate(c, []MsgIDRange{{First: 2, Last: 2}}); !c.canTake() || !c.waiting {
		t.Error("it has answered and gets nothing more")
	}
	if want := (notices{{Consumer: c.key, Kind: NoticeRevoked, Messages: MsgIDRange{First: 2, Last: 2}}}); !slices.Equal(s.notices, want) {
		t.Errorf("notices %v", s.notices)
	}
}

// TestWindowAgainstAMap settles random messages of a consumer while older states are frozen. The
// window finds what it holds and nothing else, and no frozen state changes.
func TestWindowAgainstAMap(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 6))
	var w window
	there := make(map[MsgID]bool)
	gen, next := uint64(0), MsgID(1)
	var frozen window
	var was []assigned
	for step := range 5000 {
		if random.IntN(3) > 0 {
			w.push(assigned{id: next}, gen)
			there[next] = true
			next++
		}
		if m := MsgID(1 + random.IntN(int(next))); there[m] {
			w.own(gen)
			i := w.search(m)
			if w.items[i].id != m {
				t.Fatalf("step %d: %d is not found", step, m)
			}
			w.remove(&w.items[i])
			w.tidy()
			delete(there, m)
			if w.live > 0 && (w.items[w.head].isRemoved() || w.items[len(w.items)-1].isRemoved()) {
				t.Fatalf("step %d: the first or the last item is a mark", step)
			}
		}
		if random.IntN(40) == 0 {
			for i := range frozen.items {
				if frozen.items[i] != was[i] {
					t.Fatalf("step %d: a frozen item has changed", step)
				}
			}
			frozen, was = w, slices.Clone(w.items)
			gen++
		}
		n := 0
		for a := range w.all() {
			if n++; !there[a.id] {
				t.Fatalf("step %d: %d is there again", step, a.id)
			}
		}
		if n != len(there) || n != w.live || len(w.items)-w.head > 2*n+blockLen+1 {
			t.Fatalf("step %d: %d of %d messages, counted %d, take %d places", step, n, len(there), w.live, len(w.items)-w.head)
		}
	}
}

// TestSuspicion shows when the sessions of a suspected node end, and that the suspicion ends when
// something is heard from the node.
func TestSuspicion(t *testing.T) {
	ns := &nodes{byID: make(map[id.NodeID]*node)}
	a, b := ns.of("a", 1), ns.of("b", 1)
	ns.suspect(a, 20)
	ns.suspect(b, 10)
	if ns.nextDeadline() != 10 || a.lateAt(19) || !a.lateAt(20) {
		t.Errorf("the first deadline is %d", ns.nextDeadline())
	}
	if !ns.clear(b) || ns.clear(b) || ns.nextDeadline() != 20 {
		t.Errorf("the deadline left is %d", ns.nextDeadline())
	}
	ns.clearLate(19)
	if ns.suspects != 1 {
		t.Error("cleared before its time")
	}
	ns.clearLate(20)
	if err := ns.check(); err != nil || ns.suspects != 0 || ns.nextDeadline() != 0 {
		t.Errorf("%d suspects, %v", ns.suspects, err)
	}
	b.next, b.refused = 5, []Seq{3}
	if b.renew(2); b.epoch != 2 || b.next != 1 || len(b.refused) != 0 {
		t.Errorf("a new life begins with %+v", b)
	}
}
