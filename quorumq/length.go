package quorumq

// length is how long a queue is, as its limits of length count it.
type length struct {
	messages, bytes uint64 // that count towards all limits (LEN-1, DL-20)
	unacked         uint64 // messages that count towards that of all messages (LEN-8)
}

// limited tells whether there is a limit.
func (c *Config) limited() bool {
	return c.MaxLength >= 0 || c.MaxLengthBytes >= 0 || c.MaxLengthTotal >= 0
}

// exceeds tells whether so much more would exceed a limit (LEN-2, LEN-8).
func (l length) exceeds(c *Config, messages, bytes uint64) bool {
	return c.MaxLength >= 0 && l.messages+messages > uint64(c.MaxLength) ||
		c.MaxLengthBytes >= 0 && l.bytes+bytes > uint64(c.MaxLengthBytes) || l.exceedsTotal(c, messages)
}

// exceedsTotal tells whether so many more would exceed the limit of all messages (LEN-8).
func (l length) exceedsTotal(c *Config, messages uint64) bool {
	return c.MaxLengthTotal >= 0 && l.messages+l.unacked+messages > uint64(c.MaxLengthTotal)
}
