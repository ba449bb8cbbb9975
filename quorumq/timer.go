package quorumq

// due returns when the next thing comes due, 0 for never.
func (q *Queue) due() Time {
	if q.more || q.drainDeleting && q.store.len() > 0 {
		return q.now
	}
	unused := q.unusedAt()
	if unused != 0 && unused <= q.now {
		unused = q.now
		if q.effects.Unused {
			unused = after(q.now, RepeatUnusedMs)
		}
	}
	first := q.store.firstDue()
	for _, t := range [...]Time{q.nodes.nextDeadline(), unused, q.subs.deadlines.due} {
		if t != 0 && (first == 0 || t < first) {
			first = t
		}
	}
	return first
}

// setTimer announces the first due time, if it is earlier than the announced one, or if that has
// passed. If the reason for a timer disappears, the timer fires without effect, because that is
// cheaper than announcing each change.
func (q *Queue) setTimer() {
	passed := q.timer == 0 || q.timer <= q.now
	if !passed && !q.more && q.store.nothingDue(q.timer-1) && q.nodes.suspects == 0 && q.config.ExpiresMs < 0 && !q.config.AutoDelete && !q.drainDeleting &&
		(q.subs.deadlines.due == 0 || q.subs.deadlines.due >= q.timer) {
		return
	}
	due := q.due()
	if passed {
		q.timer = due
		q.effects.Timer = due
		return
	}
	if due != 0 && due < q.timer {
		q.timer = due
		q.effects.Timer = due
	}
}

// Timer returns the newest Effects.Timer, 0 if nothing comes due. It may have passed: then the next Expire is on its way.
func (q *Queue) Timer() Time { return q.timer }

// RepeatUnusedMs is how often Effects.Unused is repeated while the queue is not deleted, in
// milliseconds.
const RepeatUnusedMs = 1000

// unusedAt returns the time at which the queue will have been, or was, unused for too long; 0 while
// that is not determined (QX-1, QX-4). A queue that is deleted with its last consumer is unused as
// soon as that has gone, and a queue that is being emptied as soon as it is empty.
func (q *Queue) unusedAt() Time {
	if q.drainDeleting {
		if q.len() == 0 {
			return max(q.idle.used, 1)
		}
		return 0
	}
	if !q.idle.ends(&q.config, q.len()) || q.subs.subscribed() {
		return 0
	}
	return q.idle.end(&q.config)
}

// Unused reports whether the queue has expired (QX-1), has lost its last consumer, or has
// been emptied for its deletion. It uses the queue's own time, which is never ahead of its
// leader's.
func (q *Queue) Unused() bool {
	at := q.unusedAt()
	return at != 0 && at <= q.now
}
