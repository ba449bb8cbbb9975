package quorumq

// MaxMoving limits the moved and published messages in a backlog: a Transact that would exceed it
// is refused with CodeTooMany.
const MaxMoving = 100_000

// applyTransact settles messages and publishes outputs, or refuses to do either.
func (q *Queue) applyTransact(m Meta, c *Transact) {
	var to []*destination
	con := q.subs.consumer(c.Consumer)
	switch {
	case con == nil:
		q.reply.Code = CodeUnknownConsumer
	case !con.held.holds(c.Ranges):
		q.reply.Code = CodeNotHeld
	case q.backlog.moving()+uint64(len(c.Outputs)) > MaxMoving:
		q.reply.Code = CodeTooMany
	default:
		if to = q.backlog.destinationsOf(c.Outputs); to == nil {
			q.reply.Code = CodeTooMany
		}
	}
	if q.reply.Code != CodeOK {
		q.effects.releaseSlots(m, len(c.Outputs))
		return
	}
	for i, d := range to {
		h := held{message: message{index: m.Index, slot: m.FirstSlot + uint32(i), size: c.Outputs[i].Size}}
		q.backlog.send(&h, d, q.now, &q.effects)
	}
	q.reply.Count = uint64(len(c.Outputs))
	q.settleRanges(con, c.Ranges)
}
