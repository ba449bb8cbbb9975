package session

// Decided returns the number after the newest decision. When Committed reaches it, all decisions
// made so far are committed. It never does if the queue was found not to know the consumer before.
func (c *Consumer) Decided() uint64 { return c.base + uint64(len(c.outcomes)) + c.dropped }

// Committed returns the number up to which every decision is answered.
func (c *Consumer) Committed() uint64 { return c.base }
