package quorumq

import "testing"

// damagedQueue returns a queue with something in each part: ready and returned messages of two levels, delayed ones, a
// backlog with a dead letter and a moved message, annotations, producers, transferred dead letters, a suspected node,
// and two consumers, one of which waits to be active.
func damagedQueue(t *testing.T) *Queue {
	t.Helper()
	c := DefaultConfig()
	c.DeadLetter, c.SingleActive, c.ConsumerTimeoutMs, c.MessageTTLMs = DeadLetterAtLeastOnce, true, 1000, 5000
	c.Overflow, c.Victim = OverflowRejectPublish, VictimOldest
	q := New(1024, c)
	k := ConsumerKey{SessionKey: SessionKey{Node: "n1", Epoch: 1, Session: 1}, Tag: 1}
	other := ConsumerKey{SessionKey: SessionKey{Node: "n2", Epoch: 1, Session: 1}, Tag: 1}
	var ms []NewMessage
	for i := range 19 {
		ms = append(ms, NewMessage{Size: 1, TTLMs: Unlimited, Priority: uint8(i % 2), Producer: &ProducerID{1}, ProducerSeq: uint64(i + 1)})
	}
	index := uint64(0)
	do := func(c Command) {
		t.Helper()
		index++
		if r, _ := q.Apply(Meta{Index: index, Now: 1}, c); r.Code != CodeOK {
			t.Fatalf("%T is answered with %d", c, r.Code)
		}
	}
	do(&Enqueue{Enqueuer: EnqueuerKey{Node: "n1", Epoch: 1}, First: 1, Messages: ms})
	do(&Enqueue{Enqueuer: EnqueuerKey{Node: "n1", Epoch: 1}, First: 20, Messages: []NewMessage{{Size: 1, TTLMs: Unlimited, Delay: Delay{Ms: 90}}, {Size: VoidSize}}})
	do(&Transfer{Source: 7, Settled: 3, DeadLetters: []DeadLetter{{Seq: 5, NewMessage: NewMessage{Size: 1, TTLMs: Unlimited}}}})
	do(&Checkout{Consumer: k, Prefetch: 5})
	do(&Checkout{Consumer: other, Prefetch: 2})
	do(&Requeue{Consumer: k, Ranges: []MsgIDRange{{First: 1, Last: 2}}, HasAnnotations: true})
	do(&Discard{Consumer: k, Ranges: []MsgIDRange{{First: 3, Last: 3}}})
	do(&Requeue{Consumer: k, Ranges: []MsgIDRange{{First: 4, Last: 4}}, Delay: Delay{Ms: 50}})
	do(&Cancel{Consumer: k, Requeue: true})
	do(&Checkout{Consumer: k, Prefetch: 1})
	page, _, _ := q.Peek(nil, PeekFrom{}, 1)
	do(&Move{To: Destination{Kind: ToQueue, Name: "q"}, Places: []Place{page[0].Place}})
	do(&NodeDown{Node: "n1", Epoch: 1})
	if err := q.check(); err != nil {
		t.Fatal(err)
	}
	return q
}

// TestCheckNoticesDamage breaks one invariant of each part after the other, and the check reports each.
func TestCheckNoticesDamage(t *testing.T) {
	anyConsumer := func(q *Queue, which func(*consumer) bool) *consumer {
		for c := range q.subs.order.consumers() {
			if which(c) {
				return c
			}
		}
		t.Fatal("no such consumer")
		return nil
	}
	holder := func(c *consumer) bool { return c.held.live > 0 }
	for name, damage := range map[string]func(*Queue){
		"ready: bytes":              func(q *Queue) { q.store.ready.bytes++ },
		"ready: count":              func(q *Queue) { q.store.ready.inLevels-- },
		"ready: bit of a level":     func(q *Queue) { q.store.ready.occupied = 0 },
		"ready: next ordinal":       func(q *Queue) { q.store.ready.nextOrd = 1 },
		"ready: next return":        func(q *Queue) { q.store.ready.nextReturn = 1 },
		"ready: count of a deque":   func(q *Queue) { q.store.ready.returned.live++ },
		"delays: bytes":             func(q *Queue) { q.store.delays.bytes++ },
		"delays: next number":       func(q *Queue) { q.store.delays.next = 1 },
		"backlog: bytes":            func(q *Queue) { q.backlog.bytes-- },
		"backlog: next number":      func(q *Queue) { q.backlog.next = 1 },
		"backlog: destination":      func(q *Queue) { q.backlog.destinations[1].count++ },
		"backlog: idle destination": func(q *Queue) { q.backlog.destinationOf(Destination{Kind: ToOrigin}) },
		"annotations: count":        func(q *Queue) { q.annotations[BodyRef{Index: 6}]++ },
		"annotations: of nobody":    func(q *Queue) { q.annotations.share(BodyRef{Index: 99}) },
		"body twice": func(q *Queue) {
			d := &q.store.ready.returned
			d.blocks[d.first].open[d.head].slot = q.store.ready.levels[0].front().slot
		},
		"nodes: suspects":            func(q *Queue) { q.nodes.suspects = 0 },
		"nodes: refused number":      func(q *Queue) { q.nodes.byID["n1"].next = 2 },
		"transfers: touching ranges": func(q *Queue) { s := q.transfers[7]; s.stored = append(s.stored, SeqRange{First: 6, Last: 6}) },
		"producers: order":           func(q *Queue) { q.producers.newest.used = 99 },
		"producers: unknown":         func(q *Queue) { clear(q.producers.byID) },
		"session: not found":         func(q *Queue) { clear(q.subs.sessions) },
		"session: closed":            func(q *Queue) { q.nodes.byID["n2"].close(1) },
		"session: older epoch":       func(q *Queue) { q.nodes.byID["n2"].epoch++ },
		"unacked: messages":          func(q *Queue) { q.subs.unacked.messages++ },
		"unacked: next number":       func(q *Queue) { q.subs.unacked.next = 1 },
		"window: count":              func(q *Queue) { anyConsumer(q, holder).held.live++ },
		"window: newest id":          func(q *Queue) { anyConsumer(q, holder).last = 0 },
		"deadlines: of the queue":    func(q *Queue) { q.subs.deadlines.due = 0 },
		"deadlines: of a consumer":   func(q *Queue) { anyConsumer(q, holder).due = 0 },
		"exclusive without access":   func(q *Queue) { q.subs.exclusive = anyConsumer(q, holder) },
		"active: nobody":             func(q *Queue) { q.subs.single.active = nil },
		"active: number":             func(q *Queue) { anyConsumer(q, holder).since = 0 },
		"active: stands by":          func(q *Queue) { c := q.subs.single.active; c.standby = !c.standby },
		"waiters: unknown": func(q *Queue) {
			q.subs.waiters.lines = append(q.subs.waiters.lines, waitLine{priority: -9, consumers: []*consumer{{waiting: true, priority: -9}}})
		},
		"waiters: not in line":          func(q *Queue) { anyConsumer(q, func(c *consumer) bool { return !c.waiting }).waiting = true },
		"drain-deleting with consumers": func(q *Queue) { q.drainDeleting = true },
	} {
		q := damagedQueue(t)
		damage(q)
		if q.check() == nil {
			t.Errorf("%s: nothing is noticed", name)
		}
	}
}
