package quorumq

// length is a queue's length as its limits count it.
type length struct {
	messages, bytes uint64 // count towards all limits (LEN-1, DL-20)
	unacked         uint64 // messages that count only towards the limit of all messages (LEN-8)
}

// limited reports whether there is a limit.
func (c *Config) limited() bool {
	return c.MaxLength >= 0 || c.MaxLengthBytes >= 0 || c.MaxLengthTotal >= 0
}

// exceeds reports whether this many more would exceed a limit (LEN-2, LEN-8).
func (l length) exceeds(c *Config, messages, bytes uint64) bool {
	return c.MaxLength >= 0 && l.messages+messages > uint64(c.MaxLength) ||
		c.MaxLengthBytes >= 0 && l.bytes+bytes > uint64(c.MaxLengthBytes) || l.exceedsTotal(c, messages)
}

// exceedsTotal reports whether this many more would exceed the limit of all messages (LEN-8).
func (l length) exceedsTotal(c *Config, messages uint64) bool {
	return c.MaxLengthTotal >= 0 && l.messages+l.unacked+messages > uint64(c.MaxLengthTotal)
}

// over reports whether a limit is exceeded, overTotal whether that of all messages is.
func (l length) over(c *Config) bool      { return l.exceeds(c, 0, 0) }
func (l length) overTotal(c *Config) bool { return l.exceedsTotal(c, 0) }

// refuses reports whether a message that would exceed a limit is refused, instead of making room
// for it; backlog is the number of messages in the backlog.
func (c *Config) refuses(backlog int) bool {
	return c.Overflow != OverflowDropHead || c.apart() && int64(backlog) >= c.BacklogLimit // DL-20
}
