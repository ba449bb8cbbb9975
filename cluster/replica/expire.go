package replica

import (
	"sync"

	"github.com/quorate/quorate/cluster/replica/timer"
	"github.com/quorate/quorate/quorumq"
)

// due converts a time of the queue to the cluster's time, in milliseconds.
func (q *Member) due(at quorumq.Time) int64 {
	return q.h.cfg.Clock.NowMs() + timer.Until(int64(at), q.group.Now()).Milliseconds()
}

// rearm sets the timer again, if it is set, because the cluster's time was set.
func (q *Member) rearm() {
	if at, _ := q.h.timers.At(q.uid); at != 0 && q.led.Load() != nil {
		q.h.timers.Again(q.uid, at, q.due(at))
	}
}

// expiry keeps at most one Expire of a queue in flight. While something is due, every applied command asks for one,
// and several in an entry do no more than one (TTL-7).
type expiry struct {
	mu    sync.Mutex // guards what follows
	out   bool       // one is in flight
	again quorumq.Time
}

// begin reports whether to propose an Expire for a time that has come. If one is in flight, it
// remembers the time instead, because that Expire may have an earlier stamp.
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

// end records that the Expire has ended, and returns the newest time that has come meanwhile; 0:
// none.
func (x *expiry) end() quorumq.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	again := x.again
	x.out, x.again = false, 0
	return again
}

// expire proposes Expire when a time of the queue has come. It does not run on the apply path
// (TTL-6).
func (q *Member) expire(at quorumq.Time) {
	if q.led.Load() == nil {
		return
	}
	if quorumq.Time(q.group.Now()) < at { // the queue's time is slower than the cluster's
		q.h.timers.Again(q.uid, at, q.due(at))
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
			q.h.timers.Again(q.uid, at, q.h.cfg.Clock.NowMs()+hostRetry.Milliseconds())
		case again != 0: // a time that the Expire itself asks for comes later, and replaces this one
			q.h.timers.Again(q.uid, again, q.due(again))
		}
	})
}
