package raftfsm

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// catchUpBytes bounds the entries that stay in the leader's log for a member that gets a snapshot, unless the snapshot has
	// more bytes: then those are the bound. Behind more entries than that, another snapshot is the shorter way.
	catchUpBytes = 64 << 20
	// catchUpRest is how long they stay for a member that has its snapshot but stores none of them.
	catchUpRest = time.Minute
)

// sentSnapshot is a snapshot for another member, which continues behind the snapshot's last entry.
type sentSnapshot struct {
	index uint64
	bytes int64
}

// keeps reports whether a log has all entries behind the snapshot, and these are within their bound.
func (s sentSnapshot) keeps(log Storage, last uint64) bool {
	entries, _ := log.Newest(last, max(catchUpBytes, s.bytes))
	return s.index <= last && entries >= last-s.index
}

// needed returns the first entry that stays although raft drops those before it from the front of the log. A member that gets
// a snapshot needs the entries behind it, or it would get one snapshot after another while entries come faster than it
// receives them. It needs the snapshot's last entry too: once there is a newer snapshot, raft finds that one's term only
// in the log.
func (g *Group[R, E]) needed(last uint64) uint64 {
	first := uint64(math.MaxUint64)
	if f := g.snaps.latest(); f != nil {
		first = f.index
	}
	if g.c.Scarce() {
		return first
	}
	for _, s := range append(g.snaps.sent(), g.out.catchUps.all(g.out.known.leads)...) {
		if s.keeps(g.c.Storage, last) {
			first = min(first, s.index)
		}
	}
	return first
}

// catchUps are the members that have got a snapshot from this leader and lack the entries behind it.
type catchUps struct {
	some atomic.Bool // there are any: otherwise an answer needs no lock

	mu sync.Mutex // guards what follows
	of map[raft.ServerID]*catchUp
}

// catchUp is one of them.
type catchUp struct {
	sentSnapshot
	term  uint64    // in which it was sent
	moved time.Time // when the member last stored entries
}

// begin records that a member has got a snapshot.
func (c *catchUps) begin(n raft.ServerID, s *raft.InstallSnapshotRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[raft.ServerID]*catchUp{}
	}
	c.of[n] = &catchUp{sentSnapshot{s.LastLogIndex, s.Size}, s.Term, time.Now()}
	c.some.Store(true)
}

// stored records that a member has stored the entries up to an index. The member needs no more than others once raft
// can send it the rest of the log at once.
func (c *catchUps) stored(n raft.ServerID, index, last uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.of[n]
	if m == nil {
		return
	}
	m.moved = time.Now()
	if index+maxAppendEntries >= last {
		delete(c.of, n)
		c.some.Store(len(c.of) > 0)
	}
}

// all returns what they have got, and forgets those of an earlier leadership and those that store nothing.
func (c *catchUps) all(leads func(term uint64) bool) (sent []sentSnapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n, m := range c.of {
		if !leads(m.term) || time.Since(m.moved) > catchUpRest {
			delete(c.of, n)
			continue
		}
		sent = append(sent, m.sentSnapshot)
	}
	c.some.Store(len(c.of) > 0)
	return sent
}
