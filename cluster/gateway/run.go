package gateway

import "github.com/quorate/quorate/cluster/traffic"

// The goroutine that has set running works on the queue until it resets running. Only this goroutine sends and calls
// back.

// startLocked starts the queue's own goroutine to process the inbox. If a goroutine works on the queue already, that
// one will do it.
func (q *Queue) startLocked() {
	if !q.running {
		q.running = true
		go q.run()
	}
}

// run processes the inbox until it is empty.
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
		out.calls = append(out.calls, in.parting...)
		if !more && out.empty() {
			q.running = false
			return
		}
		q.mu.Unlock()
		out.flush()
		q.mu.Lock()
	}
}

// publishedLocked makes sure that pushed messages are sent. If nothing is in flight, the caller's goroutine sends them
// itself, so that no other one has to wake up for them. Otherwise messages gather until the queue's own goroutine has
// its turn, which costs less. publishedLocked releases mu meanwhile.
func (q *Queue) publishedLocked() {
	if q.running || q.enqueues > 0 {
		q.inbox.unsent = true
		q.startLocked()
		return
	}
	q.sendNowLocked()
}

// sendNowLocked sends what may be sent, on the caller's goroutine. It calls nobody back, because the caller may hold
// locks. No other goroutine works on the queue. It releases mu meanwhile.
func (q *Queue) sendNowLocked() {
	q.running = true
	var out outbox
	q.pump(&out)
	q.armLocked()
	q.doneLocked(&out)
}

// answerNow answers those who wait for a command that the queue has carried out. It runs on the goroutine that brings
// the answer: the one that applied the command, or the reader of a stream. That goroutine is not held up, because
// callbacks must not block, and everything else is left to the queue's own goroutine. If another goroutine works on the
// queue, answerNow returns false, and the answer goes into the inbox.
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

// deliverLocked passes deliveries to the clients on the goroutine that brings them: a worker of this node's members, or
// the reader of a stream. It releases mu meanwhile.
func (q *Queue) deliverLocked(ds []traffic.Delivery) {
	q.running = true
	var out outbox
	if q.handleDeliveries(ds, &out) {
		q.inbox.unsent = true
	}
	q.doneLocked(&out)
}

// doneLocked sends and calls back what is in out, without mu. It leaves what has happened meanwhile to the queue's own
// goroutine.
func (q *Queue) doneLocked(out *outbox) {
	q.mu.Unlock()
	out.flush()
	q.mu.Lock()
	q.running = false
	if q.inbox.any() {
		q.startLocked()
	}
}

// emptyLocked takes everything out of the inbox.
func (q *Queue) emptyLocked() inbox {
	in := q.inbox
	q.inbox = inbox{}
	if in.bytes > maxInboxBytes {
		q.looked.Broadcast()
	}
	return in
}
