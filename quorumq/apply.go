package quorumq

// Apply applies one command and returns its reply and effects. It does not panic on any input. The
// Reply, the Effects and their slices are valid until the next Apply.
//
// Every command first handles due messages, at most ExpireSlice (TTL-2, TTL-6, TTL-7), and finally
// assigns messages for which consumers have credit, at most AssignChunk. If more is left,
// Effects.Timer asks for an Expire at once.
func (q *Queue) Apply(m Meta, c Command) (Reply, Effects) {
	q.begin(m)
	q.expireDue()
	q.reply = Reply{}
	q.dispatch(m, c)
	q.assign()
	q.enforce()
	q.more = q.more || q.excess()
	switch c.(type) {
	case *Expire, *Lead:
		q.effects.Unused = q.Unused()
	}
	q.setTimer()
	q.effects.Notices = q.subs.notices
	verify(q, m)
	return q.reply, q.effects
}

// begin clears what the last command has left, and advances the time.
func (q *Queue) begin(m Meta) {
	q.now = max(q.now, m.Now)
	if q.idle.used == 0 {
		q.idle.used = q.now // the first command of all
	}
	e := &q.effects
	*e = Effects{
		Deliver: e.Deliver[:0],
		Copies:  e.Copies[:0],
		Release: e.Release[:0],
	}
	q.subs.notices = q.subs.notices[:0]
	q.refused = q.refused[:0]
	q.assignedN, q.more = 0, false
	q.budget.begin(m.Index)
}

// dispatch carries out one command.
func (q *Queue) dispatch(m Meta, c Command) {
	switch c := c.(type) {
	case *Enqueue:
		q.applyEnqueue(m, c)
	case *Transfer:
		q.applyTransfer(m, c)
	case *Checkout:
		q.applyCheckout(c)
	case *Cancel:
		q.applyCancel(c)
	case *Credit:
		q.applyCredit(c)
	case *Settle:
		q.applySettle(c)
	case *Requeue:
		q.applyRequeue(m, c)
	case *Discard:
		q.applyDiscard(m, c)
	case *Get:
		q.applyGet(c)
	case *Expire:
		// Every command has done this already.
	case *Purge:
		q.applyPurge()
	case *Move:
		q.applyMove(c)
	case *Transact:
		q.applyTransact(m, c)
	case *Configure:
		q.applyConfigure(c)
	case *BacklogSettle:
		q.applyBacklogSettle(c)
	case *SessionClosed:
		q.applySessionClosed(c)
	case *NodeDown:
		q.applyNodeDown(c)
	case *NodeUp:
		q.applyNodeUp(c)
	case *Lead:
		q.applyLead()
	case *Extend:
		q.applyExtend(c)
	case *DrainDelete:
		q.applyDrainDelete()
	case *Seal:
		q.applySeal(c)
	case *Renumber:
		q.backlog.renumber(q.now)
	case *ForgetSources:
		for _, uid := range c.Sources {
			delete(q.transfers, uid)
		}
	case *Renew:
		q.applyRenew()
	case *RetryDelayed:
		q.applyRetryDelayed(c)
	default:
		q.reply.Code = CodeMalformed
	}
}
