package quorumq

import (
	"iter"
	"math"
)

// Saved is a message as a backup keeps it.
type Saved struct {
	Body, Annotations BodyRef
	Size              uint32
	TTLMs             int64 // its own TTL; Unlimited: none
	Priority          uint8 // its level
	Due               Time  // when it becomes ready; 0: it is
	Past
}

// Save yields all messages in the order in which they are to be stored again, so that a queue that has nothing else
// delivers them in the order of this one: those on their way to other queues, those that consumers hold, which return
// (not as failed), the returned ones, the others as they were enqueued, and the delayed ones.
func (q *Queue) Save() iter.Seq[Saved] {
	return func(yield func(Saved) bool) {
		for _, part := range [...]iter.Seq[Peeked]{
			q.pages(PartBacklog, savedPage), q.pages(PartUnsettled, math.MaxInt), q.store.ready.saved(), q.pages(PartDelayed, savedPage),
		} {
			for p := range part {
				if !yield(p.saved()) {
					return
				}
			}
		}
	}
}

// saved returns what a backup keeps of a message.
func (p *Peeked) saved() Saved {
	s := Saved{
		Body: p.Body, Annotations: p.Annotations, Size: p.Size, TTLMs: p.TTLMs, Priority: p.Priority, Due: p.Due,
		Past: Past{At: p.At, DeliveryCount: p.DeliveryCount, AcquiredCount: p.AcquiredCount, Reason: p.Reason, To: p.To},
	}
	if p.Consumer != (ConsumerKey{}) {
		s.AcquiredCount++ // it may have been processed
	}
	return s
}

// savedPage is how many messages Save examines at a time. What consumers hold is examined at once, because each page
// sorts all of it.
const savedPage = 256

// pages yields the messages of a part in the order of Peek.
func (q *Queue) pages(part Part, size int) iter.Seq[Peeked] {
	return func(yield func(Peeked) bool) {
		from, more := PeekFrom{Part: part}, true
		for page := []Peeked(nil); more; {
			page, from, more = q.Peek(page[:0], from, size)
			for i := range page {
				if !yield(page[i]) {
					return
				}
			}
		}
	}
}

// saved yields the returned messages, and then those of all levels in the order in which they were enqueued, so that
// limits remove them in this order later too (LEN-3).
func (r *ready) saved() iter.Seq[Peeked] {
	return func(yield func(Peeked) bool) {
		for x := range r.returned.all() {
			if !yield(x.peeked(x.number, Unlimited)) {
				return
			}
		}
		for m := range r.inOrder() {
			h := held{message: *m}
			if !yield(h.peeked(0, Unlimited)) {
				return
			}
		}
	}
}

// inOrder yields the messages of all levels by their ordinals.
func (r *ready) inOrder() iter.Seq[*message] {
	return func(yield func(*message) bool) {
		var heads [levels]*message
		var next [levels]func() (*message, bool)
		for l := range r.occupiedLevels() {
			var stop func()
			next[l], stop = iter.Pull(r.levels[l].all())
			defer stop()
			heads[l], _ = next[l]()
		}
		for {
			first, at := uint64(math.MaxUint64), 0
			for l, m := range heads {
				if m != nil && m.ord>>ordBits < first {
					first, at = m.ord>>ordBits, l
				}
			}
			if heads[at] == nil || !yield(heads[at]) {
				return
			}
			heads[at], _ = next[at]()
		}
	}
}

// Held returns how many messages Save yields.
func (q *Queue) Held() uint64 {
	o := q.Overview()
	return o.Ready + o.Unsettled + o.Backlog + o.Delayed
}

// BacklogLeft returns how many messages have left the backlog: they arrived elsewhere, or were dropped.
func (q *Queue) BacklogLeft() uint64 { return uint64(q.backlog.next) - 1 - uint64(q.backlog.set.len()) }
