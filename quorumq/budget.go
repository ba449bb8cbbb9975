package quorumq

// budget is how many messages the commands of one log entry take off together: whoever waits for
// one of them waits for all (TTL-7). Between entries nothing of it counts, so it is no state.
//
// Invariant: spent counts what the commands of entry have handled of what was due, or dropped
// because a limit was lowered. By RulesFirst each command has a slice of its own.
type budget struct {
	entry   uint64 // whose commands are applied
	spent   int
	granted bool // a message that comes may take the place of one other
}

// begin notes which entry the next command is of.
func (b *budget) begin(entry uint64) {
	if b.entry != entry {
		b.entry, b.spent = entry, 0
	}
}

// slice returns how many due messages the command may handle: up to ExpireSlice with those
// that earlier commands of its entry have.
func (b *budget) slice(r Rules) int {
	if r < RulesThird {
		return ExpireChunk
	}
	return max(0, ExpireSlice-b.spent)
}

// drop reports whether drop-head may take one more victim: one for a message that comes, and a
// slice for all else of the entry, as when a limit was lowered.
func (b *budget) drop(r Rules) bool {
	switch {
	case r < RulesThird:
	case b.granted:
		b.granted = false
	case b.spent < ExpireSlice:
		b.spent++
	default:
		return false
	}
	return true
}
