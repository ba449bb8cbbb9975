package quorumq

// RepeatUnusedMs is how often Effects.Unused is repeated while the queue is not deleted, in
// milliseconds.
const RepeatUnusedMs = 1000

// unusedAt returns when the queue will have been without use for too long, or was; 0 while
// that cannot be told (QX-1, QX-4). One that is consumed as long as it lives is without use
// once its last consumer has gone, and one that is being emptied once it is empty.
func (q *Queue) unusedAt() Time {
	if q.dissolving {
		if q.dissolved() {
			return max(q.used, 1)
		}
		return 0
	}
	expires := q.config.ExpiresMs > 0 && (!q.config.ExpiresIfEmpty || q.store.ready.len()+q.subs.unacked.messages+q.store.delays.set.len()+q.backlog.set.len() == 0)
	if !expires && !q.consumed || q.subs.subscribed() {
		return 0
	}
	if q.consumed {
		return max(q.used, 1)
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

// Unused tells whether the queue was without use for too long (QX-1), or has lost its last
// consumer, or is emptied for its deletion, at its own time: it is never ahead of that of its leader.
func (q *Queue) Unused() bool {
	at := q.unusedAt()
	return at != 0 && at <= q.now
}
