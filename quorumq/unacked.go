package quorumq

// unacked counts what all consumers hold.
//
// Invariants, see subscriptions.check: messages and bytes are the sums over all windows; next is
// above the number of every assignment.
type unacked struct {
	messages int
	bytes    uint64
	next     uint64 // number of the next assignment, counted over all consumers
}

// leaving is a message that is going from a consumer back to the queue. It still counts as held.
type leaving struct {
	assigned
	unsent bool // it never left the leader's node
}

// assign creates the assignment of a message to a consumer.
func (u *unacked) assign(c *consumer, h *held) assigned {
	c.last++
	a := assigned{held: *h, id: c.last, number: u.next}
	u.next++
	return a
}

// hold gives an assignment to a consumer, until it settles or returns the message.
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
