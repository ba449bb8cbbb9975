package quorumq

// applyDissolve ends all sessions and begins to empty the queue; the timer asks for
// the chunks.
func (q *Queue) applyDissolve() {
	if q.dissolving {
		return
	}
	q.closeSessions(false, q.subs.sessionsOf(func(*node) bool { return true }), Unsent{})
	q.dissolving = true
}

// Dissolving tells whether the queue is being emptied for its deletion.
func (q *Queue) Dissolving() bool { return q.dissolving }

// dissolve discards up to limit messages and returns how many more it could have.
func (q *Queue) dissolve(limit int) int {
	for ; limit > 0; limit-- {
		h, ok := q.store.takeHead(&q.config)
		if !ok {
			break
		}
		q.discard(&h, ReasonQueueDeleted)
	}
	return limit
}

// remains tells whether there is something left to dissolve.
func (q *Queue) remains() bool {
	return q.dissolving && q.store.len() > 0
}

// dissolved tells whether a queue that was to be emptied has nothing more.
func (q *Queue) dissolved() bool {
	return q.dissolving && q.store.ready.len()+q.subs.unacked.messages+q.store.delays.set.len()+q.backlog.set.len() == 0
}

// checkDissolving verifies that nobody takes from a queue that is being emptied.
func (q *Queue) checkDissolving() error {
	if q.dissolving && (len(q.subs.order) > 0 || q.subs.unacked.messages > 0) {
		return inv("%d sessions with %d messages in a queue that is being emptied", len(q.subs.order), q.subs.unacked.messages)
	}
	return nil
}
