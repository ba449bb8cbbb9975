package raftfsm

import (
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// voters reports whether a group's configuration has a single voter, in which case no peer's
// answer is needed to commit. But for changed, it belongs to raft's main goroutine.
//
// Raft takes a configuration into use when its entry is appended, commits with the new
// one at once, and goes back when the entry is cut off. So entries that bring a
// configuration are judged by that too, and raft is asked again whenever it may have
// changed its mind: after such entries, after the log was shortened, and where entries
// do not follow the last ones, as behind an installed snapshot.
type voters struct {
	// configuration is raft's newest one; nil while it is not known.
	configuration func() *raft.Configuration
	stale         atomic.Bool
	next          uint64 // index behind the entries seen last; 0: none
	few           bool   // fewer than two
}

// changed records that the configuration may have changed.
func (v *voters) changed() { v.stale.Store(true) }

// alone reports whether the entries may be committed by this member alone.
func (v *voters) alone(logs []*raft.Log) bool {
	if len(logs) == 0 {
		return false
	}
	if logs[0].Index != v.next || v.stale.Load() {
		c := v.configuration()
		v.stale.Store(c == nil)
		v.few = c == nil || few(*c)
	}
	v.next = logs[len(logs)-1].Index + 1
	alone := v.few
	for _, l := range logs {
		if l.Type == raft.LogConfiguration {
			v.changed()
			alone = alone || few(raft.DecodeConfiguration(l.Data))
		}
	}
	return alone
}

// few reports whether a quorum is one member, for which raft need ask nobody.
func few(c raft.Configuration) bool {
	n := 0
	for _, s := range c.Servers {
		if s.Suffrage == raft.Voter {
			n++
		}
	}
	return n < 2
}
