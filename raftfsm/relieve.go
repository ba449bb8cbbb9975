package raftfsm

import (
	"context"
	"math"
	"time"

	"github.com/hashicorp/raft"
)

// What snapshots leave behind in the log, and when one pays while space is scarce.
const (
	// trailingBytes bounds the entries that stay behind a snapshot, unless they are no more
	// than minTrailing. Those always stay: a follower whose entries were never committed is
	// put right by the leader's log only, and it has no more of them than are in flight.
	trailingBytes = 4 << 20
	minTrailing   = 16
	// While space is scarce, a snapshot is due when it frees scarceBytes, and a scarceShare of what is needed.
	scarceBytes = 1 << 20
	scarceShare = 4
	// relieveBytes are worth a snapshot of a group at rest.
	relieveBytes = 256 << 10
	// barrierTimeout bounds the wait for the entries that make others older.
	barrierTimeout = 2 * time.Second
)

// Trailing returns how many entries a snapshot taken now leaves behind in the log.
func (g *Group[R, E]) Trailing() uint64 {
	if g.c.Scarce() {
		return min(uint64(minTrailing), g.c.TrailingEntries)
	}
	entries, _ := g.c.Storage.Newest(g.raft.Load().LastIndex(), trailingBytes)
	return min(g.c.TrailingEntries, max(minTrailing, entries))
}

// setTrailing sets how many entries the next snapshot leaves behind in the log.
func (g *Group[R, E]) setTrailing(n uint64) {
	r := g.raft.Load()
	c := r.ReloadableConfig()
	if c.TrailingLogs == n {
		return
	}
	c.TrailingLogs = n
	if err := r.ReloadConfig(c); err != nil {
		g.log.Warn("raft does not take the number of entries to keep", "entries", n, "error", err)
	}
}

// Excess returns roughly how many bytes of the log a snapshot would free that leaves almost no
// entries behind.
func (g *Group[R, E]) Excess() int64 {
	_, excess := g.compact.weigh(g.held())
	return max(0, excess) + g.TrailingBytes()
}

// TrailingBytes returns the bytes of the entries that stay behind the last snapshot, without the newest ones, which
// always stay in the log.
func (g *Group[R, E]) TrailingBytes() (bytes int64) {
	if f, last := g.snaps.latest(), g.raft.Load().LastIndex(); f != nil && last > minTrailing {
		_, bytes = g.c.Storage.Newest(min(f.index, last-minTrailing), math.MaxInt64)
	}
	return bytes
}

// Relieve takes a snapshot if that frees enough space. It is for idle members while the disk is
// low: a member that applies commands takes snapshots by itself.
func (g *Group[R, E]) Relieve() error {
	if err := g.Failed(); err != nil {
		return g.stopped()
	}
	g.pushOut()
	if g.Excess() < relieveBytes {
		return nil
	}
	return g.Snapshot()
}

// pushOut makes large entries that the machine has let go of older than those that always
// stay in the log: if nothing follows them, as after a purge, no snapshot would let go of
// them. Only a leader can.
//
// It adds one entry at a time, and none while the log has entries that are not committed: a member
// may not have more of those than minTrailing. Without a majority one is left waiting at most.
func (g *Group[R, E]) pushOut() {
	r := g.raft.Load()
	last := r.LastIndex()
	if g.leading.term.Load() == 0 || last <= minTrailing {
		return
	}
	_, all := g.c.Storage.Newest(last, math.MaxInt64)
	_, older := g.c.Storage.Newest(last-minTrailing, math.MaxInt64)
	if newest := all - older; newest < scarceBytes || g.held() > uint64(newest/2) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), barrierTimeout)
	defer cancel()
	for range minTrailing {
		if r.CommitIndex() < r.LastIndex() {
			return
		}
		if g.await(ctx, func(r *raft.Raft) raft.Future { return r.Barrier(barrierTimeout) }) != nil {
			return // the next round looks again
		}
	}
}
