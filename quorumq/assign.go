package quorumq

import (
	"cmp"
	"slices"
)

// AssignChunk bounds the messages that one command assigns; Effects.Timer asks for more.
const AssignChunk = 4096

// turns is the line of consumers of one priority that may take a message; who got one
// goes to the end (DEL-2). A consumer that has lost its credit meanwhile is skipped when
// its turn comes.
type turns struct {
	priority int32
	line     []*consumer
	head     int
}

func (t *turns) push(c *consumer) {
	if len(t.line) == cap(t.line) && t.head > len(t.line)/2 {
		n := copy(t.line, t.line[t.head:])
		clear(t.line[n:])
		t.line, t.head = t.line[:n], 0
	}
	t.line = append(t.line, c)
}

func (t *turns) pop() *consumer {
	c := t.line[t.head]
	t.line[t.head] = nil
	t.head++
	if t.head == len(t.line) {
		t.line, t.head = t.line[:0], 0
	}
	return c
}

func (t *turns) len() int { return len(t.line) - t.head }

// wake puts a consumer in line if it may take a message.
func (q *Queue) wake(c *consumer) {
	if c.waiting || !c.canTake() {
		return
	}
	if len(q.waiting) >= maxIdleLines {
		q.waiting = slices.DeleteFunc(q.waiting, func(t turns) bool { return t.len() == 0 })
	}
	i, ok := slices.BinarySearchFunc(q.waiting, c.priority, func(t turns, p int32) int {
		return cmp.Compare(p, t.priority)
	})
	if !ok {
		q.waiting = slices.Insert(q.waiting, i, turns{priority: c.priority})
	}
	q.waiting[i].push(c)
	c.waiting = true
}

// maxIdleLines is from how many lines on empty ones are dropped; below, they are kept
// for their storage.
const maxIdleLines = 64

// nextTaker takes the consumer out of line whose turn it is, nil if nobody waits.
func (q *Queue) nextTaker() *consumer {
	for i := range q.waiting {
		for q.waiting[i].len() > 0 {
			c := q.waiting[i].pop()
			c.waiting = false
			if c.canTake() {
				return c
			}
		}
	}
	return nil
}

// sweepTurns takes consumers of closed sessions out of all lines.
func (q *Queue) sweepTurns() {
	for i := range q.waiting {
		t := &q.waiting[i]
		kept := slices.DeleteFunc(t.line[t.head:], func(c *consumer) bool { return c.session.closed })
		t.line = t.line[:t.head+len(kept)]
	}
}

// leaveLine takes one consumer out of line.
func (q *Queue) leaveLine(c *consumer) {
	if !c.waiting {
		return
	}
	c.waiting = false
	for i := range q.waiting {
		if t := &q.waiting[i]; t.priority == c.priority {
			kept := slices.DeleteFunc(t.line[t.head:], func(o *consumer) bool { return o == c })
			t.line = t.line[:t.head+len(kept)]
		}
	}
}

// assign gives ready messages to consumers that wait (DEL-2).
func (q *Queue) assign() {
	for {
		m := q.store.ready.next(&q.config)
		if m == nil {
			return
		}
		if m.expired(q.config.MessageTTLMs, q.now) {
			// More was due than one command handles; setTimer asks for the rest (TTL-2).
			return
		}
		if q.assignedN == AssignChunk {
			q.more = q.someoneWaits()
			return
		}
		c := q.nextTaker()
		if c == nil {
			return
		}
		h := q.store.ready.takeNext(&q.config)
		q.effects.Deliver = append(q.effects.Deliver, q.give(c, &h))
		q.assignedN++
		q.wake(c)
	}
}

func (q *Queue) someoneWaits() bool {
	for i := range q.waiting {
		t := &q.waiting[i]
		if slices.ContainsFunc(t.line[t.head:], (*consumer).canTake) {
			return true
		}
	}
	return false
}

// give assigns a message that has left the ready ones.
func (q *Queue) give(c *consumer, h *held) Delivery {
	c.last++
	a := assigned{held: *h, id: c.last, turn: q.turn}
	q.turn++
	q.stats.delivered++
	if h.acquired > 0 {
		q.stats.redelivered++
	}
	if c.autoAck { // DEL-4
		q.stats.settled++
		q.free(h.body(), h.annotations())
	} else {
		q.startLease(c, &a)
		c.held.push(a, q.gen)
		q.unsettled++
		q.unsettledBytes += uint64(h.size)
	}
	return a.delivery(c.key)
}
