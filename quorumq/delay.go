package quorumq

// applyRetryDelayed makes delayed messages ready, those that are due first, before they
// are (DR-6).
func (q *Queue) applyRetryDelayed(c *RetryDelayed) {
	limit := uint64(ExpireSlice) // of its own: who is told of none would not ask again
	if q.config.Rules < RulesThird {
		limit = ExpireChunk
	}
	if c.Limit > 0 {
		limit = min(limit, c.Limit)
	}
	for q.reply.Count < limit && q.store.promote(q.now, &q.config) {
		q.reply.Count++
	}
	q.reply.Left = uint64(q.store.delays.set.len())
}
