package quorumq

// MaxMoving bounds the messages of a backlog that are moved or published: a Transact that
// would make more is refused with CodeTooMany.
const MaxMoving = 100_000

// applyTransact settles and publishes, or refuses all.
func (q *Queue) applyTransact(m Meta, c *Transact) {
	con := q.subs.consumer(c.Consumer)
	switch {
	case con == nil:
		q.reply.Code = CodeUnknownConsumer
	case !con.held.holds(c.Ranges):
		q.reply.Code = CodeNotHeld
	case q.backlog.moving()+uint64(len(c.Outputs)) > MaxMoving || !q.publishAll(m, c.Outputs):
		q.reply.Code = CodeTooMany
	}
	if q.reply.Code != CodeOK {
		q.effects.releaseSlots(m, len(c.Outputs))
		return
	}
	q.settleRanges(con, c.Ranges)
}

// publishAll puts outputs into the backlog; false, and none is there, if there are too many
// destinations.
func (q *Queue) publishAll(m Meta, outputs []Output) bool {
	to := make([]*destination, len(outputs))
	for i := range outputs {
		if to[i] = q.backlog.destinationOf(Destination{Kind: ToExchange, Name: outputs[i].Exchange}); to[i] == nil {
			for _, d := range to[:i] {
				q.backlog.leave(d)
			}
			return false
		}
	}
	for i, d := range to {
		h := held{message: message{index: m.Index, slot: m.FirstSlot + uint32(i), size: outputs[i].Size}}
		q.send(&h, d)
	}
	q.reply.Count = uint64(len(outputs))
	return true
}
