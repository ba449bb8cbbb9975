package quorumq

// budget is how many messages all commands of one log entry may remove together, because a client
// that waits for one of these commands waits for all of them (TTL-7). It does not outlast an entry,
// so it is not part of the state.
//
// Invariant: spent is how many due messages the commands of entry have handled, plus how many they
// have dropped because a limit was lowered. Under RulesFirst each command has a slice of its own.
type budget struct {
	entry   uint64 // index of the entry whose commands are being applied
	spent   int
	granted bool // a new message may replace one other
}

// begin records which entry the next command belongs to.
func (b *budget) begin(entry uint64) {
	if b.entry != entry {
		b.entry, b.spent = entry, 0
	}
}

// slice returns how many due messages the command may handle: ExpireSlice less what earlier
// commands of its entry have handled.
func (b *budget) slice(r Rules) int {
	if r < RulesThird {
		return ExpireChunk
	}
	return max(0, ExpireSlice-b.spent)
}

// drop reports whether drop-head may remove one more message: one for each new message, and one
// slice for everything else in the entry, such as a lowered limit.
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
