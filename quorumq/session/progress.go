package session

// Decided returns the number after the newest decision recorded: what Committed must
// reach for all decisions made so far to be committed.
func (c *Consumer) Decided() uint64 { return c.base + uint64(len(c.outcomes)) }

// Committed returns the number up to which every decision is answered for.
func (c *Consumer) Committed() uint64 { return c.base }
