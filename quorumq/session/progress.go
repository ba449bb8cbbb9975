package session

// Decided returns the number after the newest decision. When Committed reaches it, all decisions
// made so far are committed. It never does if the queue was found not to know the consumer before.
func (c *Consumer) Decided() uint64 { return c.base + uint64(len(c.outcomes)) + c.dropped }

// Committed returns the number up to which every decision is answered.
func (c *Consumer) Committed() uint64 { return c.base }

// Void returns how many commands with decisions of the client had no effect, according to the queue: the time of all
// their messages was over, and they were back in the queue (CT-2). A command that settled some of its messages does
// not count, nor does a command that an earlier attempt may have carried out.
func (c *Consumer) Void() uint64 { return c.void }
