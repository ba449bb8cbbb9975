package quorumq

// Transact settles messages and takes others in their place, as one decision (G-22): either
// all are settled, and the outputs wait in the backlog, in this order, until the forwarder has
// published each; or nothing changes. An output dies no death on the way (as with Move).
//
// It is not to be repeated when its answer was lost: what it settled is not held any more, so
// that a repeat is refused with CodeNotHeld.
type Transact struct {
	Consumer ConsumerKey
	Ranges   []MsgIDRange // all of these must be with the consumer
	// Outputs[i] has the body FirstSlot+i.
	Outputs []Output
}

// Output is a message that a Transact publishes, with the keys that it has in its body.
type Output struct {
	Exchange string
	Size     uint32 // bytes of body (D-5)
}

// MaxMoving bounds the messages of a backlog that are moved or published: a Transact that
// would make more is refused with CodeTooMany.
const MaxMoving = 100_000

// applyTransact settles and publishes, or refuses all.
func (q *Queue) applyTransact(m Meta, c *Transact) {
	con := q.consumer(c.Consumer)
	switch {
	case con == nil:
		q.reply.Code = CodeUnknownConsumer
	case !con.held.holds(c.Ranges):
		q.reply.Code = CodeNotHeld
	case q.moving()+uint64(len(c.Outputs)) > MaxMoving || !q.publishAll(m, c.Outputs):
		q.reply.Code = CodeTooMany
	}
	if q.reply.Code != CodeOK {
		for i := range c.Outputs {
			q.release(BodyRef{Index: m.Index, Slot: m.FirstSlot + uint32(i)})
		}
		return
	}
	q.settleRanges(con, c.Ranges)
}

// publishAll puts outputs into the backlog; false, and none is there, if there are too many
// destinations.
func (q *Queue) publishAll(m Meta, outputs []Output) bool {
	to := make([]*destination, len(outputs))
	for i := range outputs {
		if to[i] = q.destinationOf(Destination{Kind: ToExchange, Name: outputs[i].Exchange}); to[i] == nil {
			for _, d := range to[:i] {
				if d.count == 0 {
					delete(q.destinations, d.id)
				}
			}
			return false
		}
	}
	for i, d := range to {
		h := held{message: message{index: m.Index, slot: m.FirstSlot + uint32(i), size: outputs[i].Size}}
		d.count++
		q.intoBacklog(&h, 0, d.id)
	}
	q.reply.Count = uint64(len(outputs))
	return true
}

// holds tells whether each message of the ranges is there. Ranges that overlap name one twice,
// which is not there a second time.
func (w *window) holds(ranges []MsgIDRange) bool {
	seen := make(map[MsgID]bool)
	for _, r := range ranges {
		next := r.First
		for i := w.search(r.First); i < len(w.items) && w.items[i].id <= r.Last; i++ {
			a := &w.items[i]
			if a.isRemoved() || a.id != next || seen[a.id] {
				return false
			}
			seen[a.id] = true
			next++
		}
		if next != r.Last+1 {
			return false
		}
	}
	return true
}
