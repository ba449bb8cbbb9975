package raftfsm

import "sync/atomic"

const (
	// pipelineEntries is how many entries of a node's groups may be in flight before a group has only one.
	pipelineEntries = 16
	// pipelineMessages is how many bodies of a group, in flight and waiting, make it worth that some wait. Those of fewer
	// would wait in vain for others.
	pipelineMessages = 4
	// pipelineBytes of a group, in flight and waiting, cost so much by themselves that fewer entries are no gain.
	pipelineBytes = 32 << 10
)

// Pipeline counts the entries in flight of all groups that a node leads. An entry costs all members the same whatever it
// carries, and what waits for the one in flight shares the next. So while a node has many in flight, a group with several
// messages has one; while it has few, there are processors left for more, and confirms need not wait.
type Pipeline struct{ entries atomic.Int64 }

// free reports whether a group that has an entry in flight may have another one.
func (p *Pipeline) free() bool { return p.entries.Load() < pipelineEntries }
