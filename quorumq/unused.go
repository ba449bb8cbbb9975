package quorumq

// RepeatUnusedMs is how often Effects.Unused is repeated while the queue is not deleted, in
// milliseconds.
const RepeatUnusedMs = 1000

// unusedAt returns when the queue will have been without use for too long, or was; 0 while
// that cannot be told (QX-1, QX-4).
func (q *Queue) unusedAt() Time {
	if q.config.ExpiresMs < 0 || q.config.ExpiresIfEmpty && q.readyLen()+q.unsettled+q.backlog.len() > 0 {
		return 0
	}
	for _, s := range q.order {
		for _, c := range s.consumers {
			if c.subscribes() {
				return 0
			}
		}
	}
	return max(after(q.used, q.config.ExpiresMs), 1)
}

// nextUnused returns when that is to be told, 0 for never.
func (q *Queue) nextUnused() Time {
	at := q.unusedAt()
	switch {
	case at == 0 || at > q.now:
		return at
	case q.effects.Unused:
		return after(q.now, RepeatUnusedMs)
	default:
		return q.now
	}
}

// reportUnused asks for the deletion of the queue when it is time.
func (q *Queue) reportUnused(c Command) {
	switch c.(type) {
	case *Expire, *Lead:
		q.effects.Unused = q.Unused()
	}
}

// Unused tells whether the queue was without use for too long (QX-1), at its own time: it is
// never ahead of that of its leader.
func (q *Queue) Unused() bool {
	at := q.unusedAt()
	return at != 0 && at <= q.now
}
