package clock

import "time"

// rateShare is the share of the time that passes by which a clock of the cluster may gain or
// lose on the monotonic clock without being set: more than it is ever slewed by, and drifts.
const rateShare = 10

// Queue is the time of one queue while one node leads it. The zero value is that of a
// queue without history.
type Queue struct {
	last    time.Duration // the queue's time, since the Unix epoch; 0: it has none
	at      time.Duration // of the leader's monotonic clock, when it was that time
	cluster time.Duration // the time of the cluster then
}

// Resume lets the queue's time go on from the latest stamp in its log, unless it is
// further already.
func (q *Queue) Resume(stamp time.Duration, m Moment) {
	if q.last == 0 || stamp > q.last+q.passed(m) {
		*q = Queue{last: stamp, at: m.Elapsed, cluster: m.Time}
	}
}

// passed is the time since the last stamp: by the clock of the cluster, but as the monotonic
// clock has it where that was set. What that clock has gained brings it nearer to a queue that
// is ahead of it, and is no time that has passed.
func (q *Queue) passed(m Moment) time.Duration {
	d := max(0, m.Elapsed-q.at)
	most := d + d/rateShare
	if q.last > q.cluster {
		most = d
	}
	return min(max(m.Time-q.cluster, d-d/rateShare), most)
}

// Peek returns the queue's time. It is that of the cluster where this is ahead: time passed
// that nobody stamped. A queue that is ahead of the cluster, which a leader with a wrong
// clock has left behind, does not wait for it, but goes on a little slower. No stamps are
// given while the cluster's time is unsynchronized: messages would get one of before the queue
// had no leader, and expire when that time is made up for.
func (q *Queue) Peek(m Moment) time.Duration {
	passed := q.passed(m)
	run := q.last + passed
	if q.last == 0 || m.Time >= run {
		return m.Time
	}
	return run - min(run-m.Time, passed/farShare)
}

// Now returns the queue's time, from which the next one continues.
func (q *Queue) Now(m Moment) time.Duration {
	q.last, q.cluster = q.Peek(m), m.Time
	q.at = max(q.at, m.Elapsed)
	return q.last
}

// Ahead returns by how much the queue's time is ahead of the cluster's, below 0 if it is behind.
func (q *Queue) Ahead(m Moment) time.Duration { return q.Peek(m) - m.Time }
