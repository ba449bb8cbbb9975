package transport

import (
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

// absent holds Raft calls for groups that have no member here but will have one soon, according to Config.Absent: a
// new group that another node has opened first, or one that was closed while nobody used it. They are handed over
// when the group opens, or refused when that takes too long. Everything is guarded by the mutex of groups.
type absent struct {
	groups map[id.GroupID]*absentCalls
	calls  int
	bytes  int
	turned uint64 // calls refused: too many, or the group did not come
}

// absentCalls are the calls that wait for one group, oldest first.
type absentCalls struct {
	calls []inboundCall
	bytes int
	late  *time.Timer
}

// dataBytes is what a call holds in memory that may be much.
func dataBytes(rpc raft.WithRPCHeader) (n int) {
	if a, is := rpc.(*raft.AppendEntriesRequest); is {
		for _, e := range a.Entries {
			n += len(e.Data)
		}
	}
	return n
}

// take returns what waits for a group, oldest first.
func (a *absent) take(g id.GroupID) []inboundCall {
	w := a.groups[g]
	if w == nil {
		return nil
	}
	delete(a.groups, g)
	w.late.Stop()
	a.calls -= len(w.calls)
	a.bytes -= w.bytes
	return w.calls
}

// close releases everything: the streams end.
func (a *absent) close() {
	for g := range a.groups {
		a.take(g)
	}
}
