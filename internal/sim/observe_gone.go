package sim

import (
	"slices"

	"github.com/quorate/quorate/quorumq"
)

// backlogNews reads what came into the backlog (DL-21).
func (l *ledger) backlogNews() {
	l.page = l.g.truth.q.Backlog(l.page[:0], l.deadLettersUpTo, 1<<30)
	for i := range l.page {
		d := &l.page[i]
		l.deadLettersUpTo = d.Seq
		if c := l.discarded(d, backlog); c != nil {
			c.view = l.w.agreed()
			l.deadLetters[d.Seq] = c
		}
	}
}

// discarded judges a discard: a reason that is true, counts that are (DL-38).
func (l *ledger) discarded(d *quorumq.Discarded, to state) *copied {
	c := l.copies[d.Body]
	if c == nil || c.state != ready {
		l.broke("DL-1", "body %v is discarded, which is not there", d.Body)
		return nil
	}
	if c.notes != d.Annotations {
		l.broke("DEL-11", "body %v is discarded with annotations %v, not %v", d.Body, d.Annotations, c.notes)
	}
	if c.acquired != d.AcquiredCount || c.failures != d.DeliveryCount {
		l.broke("DL-38", "body %v is discarded with counts %d and %d, which are %d and %d", d.Body, d.AcquiredCount, d.DeliveryCount, c.acquired, c.failures)
	}
	switch published := c.meta.kind == output; {
	case published && (d.To == nil || d.To.Kind != quorumq.ToExchange):
		l.broke("G-22", "output %v of a transaction is discarded, not published", d.Body)
	case published:
	case d.To != nil:
		l.taken++
		c.movedAt = l.moves
		if c.due > 0 {
			l.broke("G-13", "body %v is moved, it is due at %d", d.Body, c.due)
		}
	case !l.reasonHolds(c, d.Reason):
		l.broke("DL-1", "body %v is discarded for reason %s, which does not hold", d.Body, d.Reason)
	}
	l.move(c, to)
	c.dead = *d
	return c
}

// reasonHolds reports whether the message could be discarded for the reason at this moment.
func (l *ledger) reasonHolds(c *copied, r quorumq.Reason) bool {
	switch r {
	case quorumq.ReasonRejected:
		return c.rejected
	case quorumq.ReasonExpired:
		return l.due(c)
	case quorumq.ReasonDeliveryLimit:
		return c.worn
	case quorumq.ReasonMaxLen:
		return c.refused || drops(&l.config) || drops(&l.before)
	default:
		return false
	}
}

// drops reports whether a queue may drop messages for new ones (LEN-3).
func drops(c *quorumq.Config) bool {
	return c.Overflow == quorumq.OverflowDropHead && (c.MaxLength >= 0 || c.MaxLengthBytes >= 0 || c.MaxLengthTotal >= 0)
}

// backlogSettled: a dead letter is settled when its targets have it, and not before (DL-21).
func (l *ledger) backlogSettled(b *quorumq.BacklogSettle) {
	for _, rg := range b.Ranges {
		for s := rg.First; s <= rg.Last; s++ {
			c := l.deadLetters[s]
			if c == nil || c.state != backlog {
				continue
			}
			l.move(c, forwarded)
			if len(c.targets) == 0 {
				l.broke("DL-21", "dead letter %d is settled, no target has it", s)
				continue
			}
			if c.view != l.w.catalogAt {
				continue
			}
			for _, uid := range l.pendingTargets(c) {
				if !slices.Contains(c.targets, uid) {
					l.broke("DL-21", "dead letter %d is settled, target %v does not have it", s, uid)
				}
			}
		}
	}
}

// releasedBody: a body goes when its copy is gone, by a way that is known.
func (l *ledger) releasedBody(ref quorumq.BodyRef, index uint64, cmd quorumq.Command) {
	c := l.copies[ref]
	if _, is := l.notes[ref]; is {
		l.goneNotes = append(l.goneNotes, ref)
		return
	}
	if c == nil {
		if ref.Index != index {
			l.broke("lost", "body %v is released, which was never stored", ref)
		}
		return
	}
	if c.released {
		l.broke("lost", "body %v is released twice", ref)
	}
	c.released = true
	_, purge := cmd.(*quorumq.Purge)
	switch {
	case c.state == ready && l.takes(cmd, c):
		l.taken++
		c.movedAt = l.moves
		l.move(c, removed)
	case (c.state == backlog || c.state == ready && l.anyReason(c)) && l.abandons(cmd, c): // maybe it came there by this command
		l.move(c, abandoned)
	case purge && (c.state == ready || c.state == backlog):
		l.move(c, purged)
	case c.state == ready && l.drops() && l.anyReason(c):
		l.move(c, dropped)
	case c.state == ready || c.state == assigned || c.state == backlog:
		l.broke("lost", "body %v is released in state %d", ref, c.state)
	default:
	}
}

// drops reports whether what is discarded goes nowhere: by the configuration that a command brings,
// or, for what expires first, by the one that it found.
func (l *ledger) drops() bool {
	return l.config.DeadLetter == quorumq.DeadLetterDisabled || l.before.DeadLetter == quorumq.DeadLetterDisabled
}

// releasedNotes: annotations go with the last copy that has them.
func (l *ledger) releasedNotes() {
	for _, ref := range l.goneNotes {
		if l.notes[ref] != 0 {
			l.broke("lost", "annotations %v are released, %d copies have them", ref, l.notes[ref])
		}
		delete(l.notes, ref)
	}
	l.goneNotes = l.goneNotes[:0]
}

// anyReason reports whether there is any reason for which the message may be discarded.
func (l *ledger) anyReason(c *copied) bool {
	for r := quorumq.ReasonRejected; r <= quorumq.ReasonDeliveryLimit; r++ {
		if l.reasonHolds(c, r) {
			return true
		}
	}
	return false
}

// settleFresh: what a consumer rejected, or a limit refused, is not in the queue.
func (l *ledger) settleFresh() {
	for _, c := range l.fresh {
		if (c.rejected || c.refused) && c.state == ready {
			l.broke("DL-1", "body %v is still ready, rejected %t, refused %t", c.ref, c.rejected, c.refused)
		}
		if c.meta.kind == output && c.state == ready {
			l.broke("G-22", "output %v of a transaction is nowhere", c.ref)
		}
	}
}

// compareCounts holds the ledger against the queue's figures (ST-1).
func (l *ledger) compareCounts() {
	o := l.g.truth.q.Overview()
	if have, want := int(o.Delayed), l.delayedCount(); have != want {
		l.broke("DR-3", "the queue has %d delayed messages, there must be %d", have, want)
	}
	if int(o.Ready+o.Delayed) != l.count[ready] || int(o.Unsettled) != l.count[assigned] || int(o.Backlog) != l.count[backlog] {
		l.broke("conserved", "the queue has %d ready or delayed, %d unsettled, %d in the backlog; there must be %d, %d, %d",
			o.Ready+o.Delayed, o.Unsettled, o.Backlog, l.count[ready], l.count[assigned], l.count[backlog])
	}
	if o.Now != l.now {
		l.broke("C-6", "the queue's time is %d, the newest stamp %d", o.Now, l.now)
	}
}
