package quorumq

// idle records since when a queue is not used (QX-1). While it has consumers, it counts as used.
//
// Invariants: used is 0 before the first command, and never ahead of the queue's time; consumed is
// set only under Config.AutoDelete, and then stays set.
type idle struct {
	used     Time // when the queue was used last
	consumed bool // it had a consumer while it was auto-delete
}

// ends reports whether a queue with so many messages will be deleted for lack of use once it has no
// consumers (QX-4).
func (i *idle) ends(c *Config, messages int) bool {
	return i.consumed || c.ExpiresMs > 0 && (!c.ExpiresIfEmpty || messages == 0)
}

// end returns the earliest time for that: at once if it was consumed, otherwise after ExpiresMs.
func (i *idle) end(c *Config) Time {
	if i.consumed {
		return max(i.used, 1)
	}
	return max(after(i.used, c.ExpiresMs), 1)
}
