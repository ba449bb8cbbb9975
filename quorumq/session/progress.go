package session

// Decided returns the number after the newest decision. When Committed reaches it, all decisions
// made so far are committed.
func (c *Consumer) Decided() uint64 { return c.base + uint64(len(c.outcomes)) }

// Committed returns the number up to which every decision is answered.
func (c *Consumer) Committed() uint64 { return c.base }
