package quorumq

// applyPurge removes ready and delayed messages and the backlog. From here on, messages of
// the backlog that the forwarder has read count as settled.
func (q *Queue) applyPurge() {
	q.reply.Count = uint64(q.store.ready.len() + q.store.delays.set.len() + q.backlog.set.len())
	q.dropAll()
}

// dropAll removes all messages that no consumer holds, and dead-letters none.
func (q *Queue) dropAll() {
	for body, annotations := range q.store.ready.bodies() {
		q.free(body, annotations)
	}
	q.store.resetReady(&q.config)
	for d := range q.backlog.set.all() {
		q.free(d.body(), d.annotations())
	}
	q.backlog.reset()
	for d := range q.store.delays.set.all() {
		q.free(d.body(), d.annotations())
	}
	q.store.resetDelays()
}

// applyConfigure puts a configuration in force. A new message-ttl applies to messages
// already in the queue (PO-9), from the next command on. A lower limit drops heads at once. The
// present backlog is still forwarded, unless it is to be dropped (DL-27).
func (q *Queue) applyConfigure(c *Configure) {
	old := q.config
	q.config = c.Config.Normal()
	q.config.Rules = max(q.config.Rules, old.Rules)
	q.abandon(&old)
	q.store.ready.rearrange(&q.config)
	if q.config.MessageTTLMs != old.MessageTTLMs {
		q.store.rebuildExpiry(&q.config)
		q.expireDue()
	}
	q.subs.single.set(q.config.SingleActive, q.subs.order, &q.subs.waiters, &q.subs.notices)
	q.idle.consumed = q.config.AutoDelete && (q.idle.consumed || q.subs.subscribed())
	q.dropHead()
}

// applyLead repeats effects that earlier leaders may have lost: the timer, the backlog, and one
// notice for each session. The notice goes to the session's consumer with the lowest tag (0 if it
// has none), on behalf of all its consumers.
func (q *Queue) applyLead() {
	q.timer = 0
	q.effects.Backlog = q.effects.Backlog || q.backlog.set.len() > 0
	q.subs.announceLeader()
}

// applyRenew counts a use, unless it comes too late: the queue is deleted in any case (QX-2).
func (q *Queue) applyRenew() {
	if q.sealed() {
		q.reply.Code = CodeDrainDeleting
		return
	}
	q.idle.used = q.now
}

// applyRetryDelayed makes delayed messages ready before their time, those that are due first
// (DR-6).
func (q *Queue) applyRetryDelayed(c *RetryDelayed) {
	limit := uint64(ExpireSlice) // a separate limit: a caller that gets 0 would not ask again
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

// applyDrainDelete ends all sessions and begins to empty the queue. The timer asks for the
// further slices.
func (q *Queue) applyDrainDelete() {
	if q.drainDeleting {
		return
	}
	q.closeSessions(false, q.subs.sessionsOf(func(*node) bool { return true }), Unsent{})
	q.drainDeleting = true
}

// applySeal has a queue refuse what still comes, if its deletion is decided: one that is empty, or one that has
// expired, whose messages go at that moment (QX-3). A queue that still follows older rules, because nobody has led it since
// the upgrade, follows from then on those that know of that: every member that reads the command knows them.
func (q *Queue) applySeal(c *Seal) {
	if !q.sealed() {
		if c.IfUnused && q.subs.subscribed() || c.IfExpired && !q.Unused() || !c.IfExpired && q.len() > 0 {
			return
		}
		q.config.Rules = max(q.config.Rules, RulesSeventh)
		q.drainDeleting = true // first: what consumers held, and a limit then removes, is not sent as a copy
		q.closeSessions(false, q.subs.sessionsOf(func(*node) bool { return true }), Unsent{})
		q.dropAll()
	}
	q.reply.Count = 1
}
