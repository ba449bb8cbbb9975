package raftfsm

import (
	"errors"

	"github.com/hashicorp/raft"
)

// withoutApplied returns a request for raft without the entries that this member has applied, if raft would not find the entry
// before them: the log does not have that one, because a snapshot stands for it.
//
// Raft refuses such a request, unless the log ends with the snapshot. It comes if the answer to the first entries behind a
// snapshot was lost. The leader then goes back to before the beginning of its log, sends the snapshot again, which
// the member has, and the same entries, and so on without end.
//
// What is applied is committed, so the leader of this term, or of a newer one, has the same entries up to there (Raft, Leader
// Completeness). Raft is not to look for one of them.
func (g *Group[R, E]) withoutApplied(a *raft.AppendEntriesRequest) *raft.AppendEntriesRequest {
	r := g.raft.Load()
	if a.PrevLogEntry == 0 || r == nil || a.PrevLogEntry == r.LastIndex() {
		return a
	}
	applied := r.AppliedIndex()
	if a.PrevLogEntry > applied || a.Term < r.CurrentTerm() {
		return a
	}
	if err := g.c.Storage.GetLog(a.PrevLogEntry, new(raft.Log)); !errors.Is(err, raft.ErrLogNotFound) {
		return a
	}
	return unapplied(a, applied)
}

// unapplied returns a request without its entries up to applied, of which none may be before the entry that it follows. Nothing
// is committed by it that it does not vouch for: raft would take all of the member's log for the leader's.
func unapplied(a *raft.AppendEntriesRequest, applied uint64) *raft.AppendEntriesRequest {
	rest := *a
	end := a.PrevLogEntry + uint64(len(a.Entries))
	rest.PrevLogEntry, rest.PrevLogTerm = 0, 0
	rest.Entries = a.Entries[min(applied, end)-a.PrevLogEntry:]
	rest.LeaderCommitIndex = min(a.LeaderCommitIndex, max(applied, end))
	return &rest
}
