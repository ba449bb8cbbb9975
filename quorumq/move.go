package quorumq

// applyMove moves messages. It replies with how many, and with the number of the last one in the
// backlog.
func (q *Queue) applyMove(c *Move) {
	var to *destination
	if c.To.Kind != ToNowhere {
		if to = q.backlog.destinationOf(c.To); to == nil {
			q.reply.Code = CodeTooMany
			return
		}
	}
	for _, p := range c.Places {
		h, ok := q.store.ready.removeAt(p)
		if !ok {
			continue
		}
		q.reply.Count++
		if to == nil {
			q.stats.removed++
			q.free(h.body(), h.annotations())
			continue
		}
		q.backlog.send(&h, to, q.now, &q.effects)
	}
	if to != nil {
		q.backlog.leave(to)
	}
}
