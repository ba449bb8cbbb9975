package quorumq

import "slices"

// applyTransfer stores the dead letters that are new. It does not remember those that it refuses,
// because the source keeps them and sends them again.
func (q *Queue) applyTransfer(m Meta, c *Transfer) {
	s := q.transfers.of(c.Source)
	s.settle(c.Settled)
	for i := range c.DeadLetters {
		l := &c.DeadLetters[i]
		body := BodyRef{Index: m.Index, Slot: m.FirstSlot + uint32(i)}
		switch {
		case s.has(l.Seq):
			q.stats.dedup++
			q.effects.release(body)
		case l.Size == VoidSize:
			q.effects.release(body)
		case q.sealed(), q.refuses(1, uint64(l.Size)):
			// LEN-6. They are not dead-lettered under reject-publish-dlx either, because each retry
			// would make one more.
			q.stats.refused++
			q.refused = append(q.refused, l.Seq)
			q.effects.release(body)
		default:
			s.add(l.Seq)
			q.reply.Stored++
			q.admit(body, &l.NewMessage)
		}
	}
	q.transfers.leave(c.Source)
	slices.Sort(q.refused)
	q.reply.Refused = q.refused
}
