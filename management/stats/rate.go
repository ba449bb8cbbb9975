package stats

import (
	"time"

	"github.com/quorate/quorate/broker/queues"
)

// perSecond is how fast a counter went up. A counter that went back has restarted, so nothing is known: 0.
func perSecond(before, now uint64, elapsed time.Duration) float64 {
	if now < before || elapsed <= 0 || elapsed > RateWithin {
		return 0
	}
	return float64(now-before) / elapsed.Seconds()
}

// change is how fast a number became larger, or smaller.
func change(before, now uint64, elapsed time.Duration) float64 {
	return (float64(now) - float64(before)) / elapsed.Seconds()
}

// queueRates are the rates of a queue between two times. With another leader they are 0: it may have been behind, or the
// one before cut off, and what was caught up at once would look like a spike.
func queueRates(before, now *Queue, elapsed time.Duration) Rates {
	if before == nil || before.Leader != now.Leader {
		return Rates{}
	}
	b, n := before.Stats, now.Stats
	return Rates{
		Publish: perSecond(b.Enqueued, n.Enqueued, elapsed), Deliver: perSecond(b.Delivered, n.Delivered, elapsed),
		Get: perSecond(b.Gets, n.Gets, elapsed), Ack: perSecond(b.Settled, n.Settled, elapsed),
		Redeliver:  perSecond(b.Redelivered, n.Redelivered, elapsed),
		DeadLetter: perSecond(sumOf(b.DeadLettered), sumOf(n.DeadLettered), elapsed),
	}
}

// sameLife reports whether what a node has counted can be compared: it has answered twice since one start.
func sameLife(before, now *Node) bool {
	return before != nil && before.Epoch == now.Epoch && before.Answers && now.Answers
}

// gatewayRates are the rates of what a node counts as gateway. After its restart they are 0 once.
func gatewayRates(before, now *Node, elapsed time.Duration) Rates {
	if !sameLife(before, now) {
		return Rates{}
	}
	rate := func(name string) float64 { return perSecond(before.Counters[name], now.Counters[name], elapsed) }
	return Rates{
		Publish: rate("published"), Confirm: rate("confirmed"), DeadLetter: rate("dead_letters_confirmed"),
		Returned: rate("unroutable_returned"), Dropped: rate("unroutable_dropped"),
		Consumed: rate("consumed"), ConsumedAutoAck: rate("consumed_auto_ack"), Got: rate("got"), GotAutoAck: rate("got_auto_ack"),
	}
}

// useRates are how fast what a node uses becomes more. After its restart they are 0 once.
func useRates(before, now *Node, elapsed time.Duration) (u Use) {
	if !sameLife(before, now) || elapsed <= 0 || elapsed > RateWithin {
		return u
	}
	if b, n := before.Vitals, now.Vitals; b != nil && n != nil {
		u.Memory, u.Files = change(b.Memory, n.Memory, elapsed), change(b.Files, n.Files, elapsed)
	}
	if b, n := before.Disk, now.Disk; b != nil && n != nil {
		u.DiskFree = change(b.Free, n.Free, elapsed)
	}
	return u
}

// sumOf adds up counts.
func sumOf(counts map[string]uint64) (sum uint64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// add adds other rates.
func (r *Rates) add(x *Rates) {
	r.Publish, r.Confirm, r.Deliver, r.Get = r.Publish+x.Publish, r.Confirm+x.Confirm, r.Deliver+x.Deliver, r.Get+x.Get
	r.Ack, r.Redeliver, r.DeadLetter = r.Ack+x.Ack, r.Redeliver+x.Redeliver, r.DeadLetter+x.DeadLetter
	r.Returned, r.Dropped = r.Returned+x.Returned, r.Dropped+x.Dropped
	r.Consumed, r.ConsumedAutoAck = r.Consumed+x.Consumed, r.ConsumedAutoAck+x.ConsumedAutoAck
	r.Got, r.GotAutoAck = r.Got+x.Got, r.GotAutoAck+x.GotAutoAck
}

// withQueues returns what a gateway counts, with what only queues count.
func (r Rates) withQueues(queues Rates) Rates {
	r.Deliver, r.Get, r.Ack, r.Redeliver = queues.Deliver, queues.Get, queues.Ack, queues.Redeliver
	return r
}

// add adds a queue.
func (t *Totals) add(s *queues.Stats) {
	t.Queues++
	t.Ready, t.Unsettled, t.Delayed, t.Backlog = t.Ready+s.Ready, t.Unsettled+s.Unsettled, t.Delayed+s.Delayed, t.Backlog+s.Backlog
	t.Bytes += s.ReadyBytes + s.UnsettledBytes + s.DelayedBytes + s.BacklogBytes
	t.Consumers += s.Consumers
}

// totalsOf are those of one queue.
func totalsOf(s *queues.Stats) *Totals {
	out := &Totals{}
	out.add(s)
	return out
}

// add adds a queue.
func (h *VHost) add(q *Queue) {
	s := q.Stats
	h.Totals.add(s)
	h.Rates.add(&q.Rates)
	c := countsOf(s)
	h.Counts.plus(&c)
}

// countsOf are what one queue has counted.
func countsOf(s *queues.Stats) Counts {
	return Counts{Publish: s.Enqueued, Deliver: s.Delivered, Get: s.Gets, EmptyGets: s.EmptyGets, Ack: s.Settled, Redeliver: s.Redelivered}
}

// plus adds other counts.
func (c *Counts) plus(x *Counts) {
	c.Publish, c.Deliver, c.Get, c.EmptyGets = c.Publish+x.Publish, c.Deliver+x.Deliver, c.Get+x.Get, c.EmptyGets+x.EmptyGets
	c.Ack, c.Redeliver = c.Ack+x.Ack, c.Redeliver+x.Redeliver
}
