package quorumq

// idle is since when a queue is without use (QX-1). While it has consumers, that does not count.
//
// Invariants: used is 0 before the first command, and never ahead of the queue's time; consumed is
// set only under Config.AutoDelete, and then for good.
type idle struct {
	used     Time // when the queue was used last
	consumed bool // there was a consumer since it is to be deleted with its last
}

// ends reports whether a queue of so many messages is to be deleted for want of use, once it has
// no consumers (QX-4).
func (i *idle) ends(c *Config, messages int) bool {
	return i.consumed || c.ExpiresMs > 0 && (!c.ExpiresIfEmpty || messages == 0)
}

// end returns when that is, at the earliest: at once if it was consumed, else after some time.
func (i *idle) end(c *Config) Time {
	if i.consumed {
		return max(i.used, 1)
	}
	return max(after(i.used, c.ExpiresMs), 1)
}
