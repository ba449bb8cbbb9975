package replica

import (
	"sync"

	"github.com/quorate/quorate/quorumq"
)

// due returns when a time of the queue's comes, by the time of the cluster in milliseconds.
func (q *Member) due(at quorumq.Time) int64 {
	return q.h.cfg.Clock.NowMs() + until(int64(at), q.group.Now()).Milliseconds()
}

// rearm sets the timer again, if it is set: the time of the cluster was set.
func (q *Member) rearm() {
	if at, _ := q.h.timers.at(q.uid); at != 0 && q.led.Load() != nil {
		q.h.timers.again(q.uid, at, q.due(at))
	}
}

// expiry keeps one Expire of a queue on its way at a time: while something is due every
// command that is applied asks for one, and more of them in an entry do nothing (TTL-7).
type expiry struct {
	mu    sync.Mutex // guards what follows
	out   bool       // one is on its way
	again quorumq.Time
}

// begin reports whether to propose an Expire for a time that has come. If one is on its way the
// time is kept: that one may have an earlier stamp.
func (x *expiry) begin(at quorumq.Time) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.out {
		x.again = at
		return false
	}
	x.out = true
	return true
}

// end notes that the Expire has come to its end, and returns the newest time that came
// meanwhile; 0: none did.
func (x *expiry) end() quorumq.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	again := x.again
	x.out, x.again = false, 0
	return again
}

// expire proposes Expire when a time of the queue's has come, off the apply path (TTL-6).
func (q *Member) expire(at quorumq.Time) {
	if q.led.Load() == nil {
		return
	}
	if quorumq.Time(q.group.Now()) < at { // its time goes slower than the cluster's
		q.h.timers.again(q.uid, at, q.due(at))
		return
	}
	if !q.expiry.begin(at) {
		return
	}
	q.propose(&quorumq.Expire{}, func(err error) {
		again := q.expiry.end()
		switch {
		case q.led.Load() == nil:
		case err != nil:
			q.h.timers.again(q.uid, at, q.h.cfg.Clock.NowMs()+hostRetry.Milliseconds())
		case again != 0: // what the command itself asks for comes after this and counts instead
			q.h.timers.again(q.uid, again, q.due(again))
		}
	})
}
