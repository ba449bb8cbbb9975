package gateway

import "github.com/quorate/quorate/cluster/traffic"

// Who works on a queue is the one that sets running, until it takes that back: only it sends and calls
// back.

// startLocked has a goroutine of the queue's own work off what has happened, unless somebody works on
// the queue already, who then sees to it.
func (q *Queue) startLocked() {
	if !q.running {
		q.running = true
		go q.run()
	}
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

// publishedLocked has messages sent that were pushed. The publisher sends them itself if nothing is on
// its way, so that no other goroutine has to wake up for them; else more gathers until the queue's own
// has its turn, and costs less. It lets mu go meanwhile.
func (q *Queue) publishedLocked() {
	if q.running || q.enqueues > 0 {
		q.inbox.unsent = true
		q.startLocked()
		return
	}
	q.sendNowLocked()
}

// sendNowLocked sends what may be sent, on the caller's goroutine, and calls nobody back: the caller may
// hold locks. Nobody works on the queue. It lets mu go meanwhile.
func (q *Queue) sendNowLocked() {
	q.running = true
	var out outbox
	q.pump(&out)
	q.armLocked()
	q.doneLocked(&out)
}

// answerNow answers those who wait for a command that the queue has carried out, on the goroutine that brings
// the answer: the one that applied the command, or a stream's reader. Neither waits: what it calls must
// not block, and all else that there is to do is left to the queue's own goroutine. False: somebody
// else works on the queue, and takes the answer like any other.
func (q *Queue) answerNow(a *response) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running || q.ended != nil {
		return false
	}
	q.running = true
	var out outbox
	q.handleResponse(a, &out)
	f := &a.request
	q.inbox.unsent = q.inbox.unsent || q.publisher.HasUnsent() || q.ops.hasUnsent() ||
		f.cons != nil && f.cons.unsent() || f.op != nil && f.op.opens != nil
	q.doneLocked(&out)
	return true
}

// deliverLocked hands deliveries to the clients on the goroutine that brings them: a worker of this
// node's members, or a stream's reader. It lets mu go meanwhile.
func (q *Queue) deliverLocked(ds []traffic.Delivery) {
	q.running = true
	var out outbox
	if q.handleDeliveries(ds, &out) {
		q.inbox.unsent = true
	}
	q.doneLocked(&out)
}

// doneLocked sends and calls back what is in out, without mu, and leaves what happened meanwhile to
// the queue's own goroutine.
func (q *Queue) doneLocked(out *outbox) {
	q.mu.Unlock()
	out.flush()
	q.mu.Lock()
	q.running = false
	if q.inbox.any() {
		q.startLocked()
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
