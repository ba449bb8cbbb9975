package gateway

import (
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// inbox is what has happened to a Queue and was not looked at.
type inbox struct {
	published  []published
	answers    []response
	deliveries []traffic.Delivery
	bytes      int64 // of deliveries
	ops        []*op
	recalled   []*op
	notices    []quorumq.Notice
	leader     *id.NodeID // news of the local member
	lost       []id.NodeID
	tick       bool
	wake       bool
}

// The following bring events from other goroutines; none blocks but delivered.

// post answers at once with an error if the queue has ended.
func (q *Queue) post(o *op) {
	q.mu.Lock()
	if err := q.ended; err != nil {
		q.mu.Unlock()
		o.done(opAnswer{err: err})
		return
	}
	q.inbox.ops = append(q.inbox.ops, o)
	q.startLocked()
	q.mu.Unlock()
}

func (q *Queue) answered(a response) {
	q.event(func(in *inbox) { in.answers = append(in.answers, a) })
}

// delivered waits while the inbox is full of deliveries. Looking at them takes no time, but
// whoever brings them may be faster.
func (q *Queue) delivered(ds []traffic.Delivery) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.ended == nil && q.inbox.bytes > maxInboxBytes {
		q.looked.Wait()
	}
	if q.ended != nil {
		return
	}
	q.inbox.deliveries = append(q.inbox.deliveries, ds...)
	for i := range ds {
		q.inbox.bytes += ds[i].Size()
	}
	q.startLocked()
}

func (q *Queue) noticed(n quorumq.Notice) {
	q.event(func(in *inbox) { in.notices = append(in.notices, n) })
}

func (q *Queue) led(leader id.NodeID) {
	q.event(func(in *inbox) { in.leader = &leader })
}

func (q *Queue) disconnected(n id.NodeID) {
	q.event(func(in *inbox) { in.lost = append(in.lost, n) })
}

func (q *Queue) wake() { q.event(func(in *inbox) { in.wake = true }) }

// event drops what happens to a queue that has ended.
func (q *Queue) event(add func(*inbox)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended != nil {
		return
	}
	add(&q.inbox)
	q.startLocked()
}

// startLocked runs the queue's goroutine, which ends when nothing is left to do; q.mu is held.
func (q *Queue) startLocked() {
	if !q.running {
		q.running = true
		go q.run()
	}
}

// emptyLocked takes what is in the inbox.
func (q *Queue) emptyLocked() inbox {
	in := q.inbox
	q.inbox = inbox{}
	if in.bytes > maxInboxBytes {
		q.looked.Broadcast()
	}
	return in
}

// run works off the inbox until it is empty.
func (q *Queue) run() {
	var out outbox
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		in := q.emptyLocked()
		more := in.any()
		if more && q.ended == nil {
			q.handleInbox(in, &out)
			q.pump(&out)
			q.armLocked()
		}
		if !more && out.empty() {
			q.running = false
			return
		}
		q.mu.Unlock()
		out.flush()
		q.mu.Lock()
	}
}

func (in *inbox) any() bool {
	return len(in.published)+len(in.answers)+len(in.deliveries)+len(in.ops)+len(in.recalled)+len(in.notices)+len(in.lost) > 0 ||
		in.leader != nil || in.tick || in.wake
}

// outbox gathers what a pass over the inbox does once mu is free.
type outbox struct {
	sends     []func()
	confirmed []confirmation
	calls     []func()
}

// confirmation is an answer to Enqueue; there are many, so that they are no closures.
type confirmation struct {
	done func(error)
	err  error
}

func (out *outbox) empty() bool { return len(out.sends)+len(out.confirmed)+len(out.calls) == 0 }

// flush is called without q.mu: what it calls may come back to the queue. The slices are used again.
func (out *outbox) flush() {
	for i, f := range out.sends {
		f()
		out.sends[i] = nil
	}
	for i, c := range out.confirmed {
		c.done(c.err)
		out.confirmed[i] = confirmation{}
	}
	for i, f := range out.calls {
		f()
		out.calls[i] = nil
	}
	out.sends, out.confirmed, out.calls = out.sends[:0], out.confirmed[:0], out.calls[:0]
}
