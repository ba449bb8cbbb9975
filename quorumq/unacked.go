package quorumq

// unacked counts what all consumers hold.
//
// Invariants, see subscriptions.check: messages and bytes are those of all windows; next is above
// the number of any assignment.
type unacked struct {
	messages int
	bytes    uint64
	next     uint64 // number of the next assignment, over all consumers
}

// leaving is a message on its way from a consumer back to the queue. It still counts.
type leaving struct {
	assigned
	unsent bool // it never left the leader's node
}

// assign makes an assignment of a message to a consumer.
func (u *unacked) assign(c *consumer, h *held) assigned {
	c.last++
	a := assigned{held: *h, id: c.last, number: u.next}
	u.next++
	return a
}

// hold gives a consumer an assignment, until it settles the message or gives it back.
func (u *unacked) hold(c *consumer, a *assigned, gen uint64) {
	c.held.push(*a, gen)
	u.messages++
	u.bytes += uint64(a.size)
}

// remove accounts for a message that its consumer no longer holds.
func (u *unacked) remove(size uint32) {
	u.messages--
	u.bytes -= uint64(size)
}
