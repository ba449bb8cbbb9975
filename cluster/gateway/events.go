package gateway

import (
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// post adds a command. If the queue has ended, the command is answered with an error at once.
func (q *Queue) post(o *op) {
	q.mu.Lock()
	if err := q.ended; err != nil {
		q.mu.Unlock()
		o.done(opResult{err: err})
		return
	}
	if q.running {
		q.inbox.ops = append(q.inbox.ops, o)
	} else {
		q.ops.add([]*op{o})
		q.sendNowLocked()
	}
	q.mu.Unlock()
}

// answered processes an answer at once if possible; otherwise it goes into the inbox.
func (q *Queue) answered(a response) {
	if a.accepted() && q.answerNow(&a) {
		return
	}
	q.event(func(in *inbox) {
		a.behind = len(in.deliveries)
		in.answers = append(in.answers, a)
	})
}

// delivered accepts deliveries, which then belong to the queue. It waits while the inbox has too
// many of them. Processing them is fast, but whoever brings them may be faster.
func (q *Queue) delivered(ds []traffic.Delivery) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.running && q.ended == nil {
		q.deliverLocked(ds)
		return
	}
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

// event adds to the inbox and has it processed. It drops what happens to a queue that has ended.
func (q *Queue) event(add func(*inbox)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended != nil {
		return
	}
	add(&q.inbox)
	q.startLocked()
}
