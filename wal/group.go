package wal

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

// GroupLog is a group's part of the log: a raft.LogStore, a raft.MonotonicLogStore and a
// raft.StableStore. Callers must not change the slices of entries that it returns, nor those that
// they have passed to it.
//
// StoreLog, StoreLogs, DeleteRange, Retain and SetUint64 of a term return as soon as their writes
// are in memory. Before it acknowledges them, a caller must check Durable, wait for Notify, or call
// Sync. Votes and StoreRetained return when their writes, and all earlier ones, survive a power
// cut.
type GroupLog struct {
	l  *Log
	id id.GroupID

	appended atomic.Uint64 // a Position; written under l.mu
	notify   atomic.Pointer[func(Position, error)]

	// What follows is guarded by l.mu.
	st          state
	at          loc    // of the newest state record; size 0 until there is one
	pendingVote uint64 // LastVoteTerm that waits for its LastVoteCand
	ix          index  // the log and what is left below it
	rt          index  // what snapshots have brought
	keeps       []keepRecord
	epoch       uint64 // of keeps: see Retain
	tail        tail
	batch       *batch // that has the newest record and reports it
	hurt        string // what recovery found damaged
	lost        error
	gone        bool // deleted
}

// keepRecord is a keep record that is needed.
type keepRecord struct {
	at    loc
	epoch uint64
	span
}

func (g *GroupLog) exists() bool { return g.at.size != 0 }

// Group returns the group's id.
func (g *GroupLog) Group() id.GroupID { return g.id }

// Appended returns the position behind the group's last change.
func (g *GroupLog) Appended() Position { return Position(g.appended.Load()) }

// Durable returns the position up to which everything survives a power cut.
func (g *GroupLog) Durable() Position { return g.l.Durable() }

// Notify registers f, which is called whenever records of the group have become durable, with the
// position up to which everything is durable. The call is on the writer's goroutine, which f must
// not block. If the log fails while records of the group are not durable, f gets the error. The
// registration lasts until Close. Notify returns true because writes return before they are
// durable.
func (g *GroupLog) Notify(f func(Position, error)) bool {
	l := g.l
	l.mu.Lock()
	defer l.mu.Unlock()
	g.notify.Store(&f)
	if b := l.holding(g.Appended()); b != nil {
		b.groups = append(b.groups, g)
		g.batch = b
	}
	return true
}

// Sync returns when everything of the group survives a power cut.
func (g *GroupLog) Sync() error {
	g.l.mu.Lock()
	if err := g.usable(); err != nil {
		g.l.mu.Unlock()
		return err
	}
	g.l.mu.Unlock()
	return g.l.wait(g.Appended())
}

// wrote records that the group's newest record is in the current batch. The caller holds l.mu.
func (g *GroupLog) wrote() {
	l := g.l
	g.appended.Store(uint64(l.appended))
	if g.batch != l.cur && g.notify.Load() != nil {
		g.batch = l.cur
		l.cur.groups = append(l.cur.groups, g)
	}
}

// usable returns why the group can do nothing, or nil. The caller holds l.mu.
func (g *GroupLog) usable() error {
	switch {
	case g.l.err != nil:
		return g.l.err
	case g.gone:
		return fmt.Errorf("%w: %s", ErrDeleted, g.id)
	case g.lost != nil:
		return g.lost
	default:
		return g.l.usable()
	}
}

// change runs a function that appends records, and waits for the disk if wait is set and
// anything was appended. The function checks before it puts: it must not fail half-way.
func (g *GroupLog) change(wait bool, f func() error) error {
	l := g.l
	l.mu.Lock()
	err := l.admit()
	if err == nil {
		err = g.usable()
	}
	before := l.appended
	if err == nil {
		err = f()
	}
	if err != nil || l.appended == before {
		l.mu.Unlock()
		return err
	}
	g.wrote()
	b := l.cur
	l.mu.Unlock()
	l.work.Signal()
	if !wait {
		return nil
	}
	<-b.done
	return b.err
}

// putState writes the state as a whole; it replaces the older record.
func (g *GroupLog) putState(cause Cause) {
	r := g.st.record(g.id, cause)
	was := g.at
	g.at = g.l.put(&r)
	g.l.drop(was)
}

// create writes the group's first record unless the group exists.
func (g *GroupLog) create() {
	if g.exists() {
		return
	}
	g.putState(CauseCreate)
	g.bury()
}

// Create writes the group's first record unless the group exists, and returns when everything of the group survives a
// power cut.
func (g *GroupLog) Create() error {
	if err := g.change(false, func() error { g.create(); return nil }); err != nil {
		return err
	}
	return g.Sync()
}

// bury lets a group that exists again keep its past dead by its new records: the record that says "deleted" could not
// be carried behind them.
func (g *GroupLog) bury() {
	at, was := g.l.deleted[g.id]
	if !was {
		return
	}
	g.epoch++
	g.putKeeps(span{0, ^uint64(0)}, g.epoch)
	g.l.drop(at)
	delete(g.l.deleted, g.id)
}

// IsMonotonic implements raft.MonotonicLogStore: after a snapshot from the leader raft
// drops the whole log instead of leaving a gap in it.
func (g *GroupLog) IsMonotonic() bool { return true }

// FirstIndex implements raft.LogStore.
func (g *GroupLog) FirstIndex() (uint64, error) {
	first, _, err := g.bounds()
	return first, err
}

// LastIndex implements raft.LogStore.
func (g *GroupLog) LastIndex() (uint64, error) {
	_, last, err := g.bounds()
	return last, err
}

// bounds returns zeros for an empty log.
func (g *GroupLog) bounds() (first, last uint64, err error) {
	g.l.mu.Lock()
	defer g.l.mu.Unlock()
	if err := g.usable(); err != nil {
		return 0, 0, err
	}
	if g.st.first == g.st.next {
		return 0, 0, nil
	}
	return g.st.first, g.st.next - 1, nil
}

// StoreLog implements raft.LogStore.
func (g *GroupLog) StoreLog(e *raft.Log) error { return g.StoreLogs([]*raft.Log{e}) }

// StoreLogs implements raft.LogStore. Entries with indexes that are already in the log replace
// those entries and all behind them. Entries that do not follow the last one, such as the first
// after a snapshot from the leader, start the log over.
func (g *GroupLog) StoreLogs(entries []*raft.Log) error {
	if len(entries) == 0 {
		return nil
	}
	if err := g.check(entries, true); err != nil {
		return err
	}
	return g.change(false, func() error {
		begin := entries[0].Index
		if g.st.first < g.st.next && begin < g.st.first {
			return fmt.Errorf("wal: group %s: entry %d is below the log %d..%d", g.id, begin, g.st.first, g.st.next-1)
		}
		g.create()
		switch {
		case begin > g.st.next || g.st.first == g.st.next && begin < g.st.next:
			g.reset(begin)
		case begin < g.st.next:
			g.truncate(begin)
		}
		for _, e := range entries {
			r := entryRecord(KindEntry, g.id, e)
			r.stays = true
			g.l.drop(g.ix.set(e.Index, g.l.put(&r)))
			g.l.tail.add(g, e)
		}
		g.st.next = begin + uint64(len(entries))
		return nil
	})
}

// check refuses entries that cannot be stored.
func (g *GroupLog) check(entries []*raft.Log, contiguous bool) error {
	for i, e := range entries {
		switch {
		case e.Index == 0 || e.Index == ^uint64(0):
			return fmt.Errorf("wal: group %s: entry has index %d", g.id, e.Index)
		case contiguous && e.Index != entries[0].Index+uint64(i):
			return fmt.Errorf("wal: group %s: entry %d follows entry %d", g.id, e.Index, entries[i-1].Index)
		case len(e.Extensions) > MaxExtensionBytes:
			return fmt.Errorf("wal: group %s: entry %d has %d bytes of extensions, at most %d are possible",
				g.id, e.Index, len(e.Extensions), MaxExtensionBytes)
		case len(e.Data) > MaxRecordBytes-HeadBytes-MaxExtensionBytes:
			return fmt.Errorf("wal: group %s: entry %d has %d bytes, at most %d are possible",
				g.id, e.Index, len(e.Data), MaxRecordBytes-HeadBytes-MaxExtensionBytes)
		}
	}
	return nil
}

// truncate drops the log from an index on.
func (g *GroupLog) truncate(from uint64) {
	g.ix.remove(span{from, ^uint64(0)}, always, g.l.drop)
	g.tail.from(from)
	g.st.next = from
	g.putState(CauseSuffix)
}

// reset begins the log anew at an index. What is there below it stays until Retain; a
// keep record names it, because indexes between may have been dropped before.
func (g *GroupLog) reset(begin uint64) {
	g.ix.remove(span{begin, ^uint64(0)}, always, g.l.drop)
	g.tail.clear()
	g.st.first, g.st.next = begin, begin
	g.epoch++
	// First what is there: a crash between the two changes nothing.
	g.putKeeps(span{0, ^uint64(0)}, g.epoch)
	g.putState(CauseReset)
	g.dropKeeps()
}

// DeleteRange implements raft.LogStore. Deleting a prefix only moves the first index: Entry can
// read the deleted entries until Retain.
func (g *GroupLog) DeleteRange(from, to uint64) error {
	return g.change(false, func() error {
		first, next := g.st.first, g.st.next
		switch {
		case from > to || first == next || from >= next || to < first:
			return nil
		case from <= first:
			g.st.first = min(to, next-1) + 1
			g.tail.upTo(g.st.first - 1)
			g.putState(CausePrefix)
			return nil
		case to < next-1:
			return fmt.Errorf("wal: group %s: entries %d..%d are in the middle of the log %d..%d", g.id, from, to, first, next-1)
		default:
			g.truncate(from)
			return nil
		}
	})
}

// Close releases the group's entries in memory and ends Notify. The group stays in the log, and the
// GroupLog can still be used.
func (g *GroupLog) Close() error {
	g.l.mu.Lock()
	defer g.l.mu.Unlock()
	g.tail.clear()
	g.notify.Store(nil)
	return nil
}

// Keys of raft.StableStore. Raft uses no others.
const (
	keyTerm     = "CurrentTerm"
	keyVoteTerm = "LastVoteTerm"
	keyVoteFor  = "LastVoteCand"
)

var errKey = errors.New("is not one of raft's keys CurrentTerm, LastVoteTerm and LastVoteCand")

// Set implements raft.StableStore for LastVoteCand. Raft persists a vote in two writes;
// the term waits in memory for the candidate and both become one record, because a vote
// in a newer term for the candidate of an older one must never be read back.
func (g *GroupLog) Set(key, value []byte) error {
	if string(key) != keyVoteFor {
		return fmt.Errorf("wal: group %s: %q %w", g.id, key, errKey)
	}
	return g.change(true, func() error {
		if g.st.voteFor != nil && g.st.voteTerm == g.pendingVote && string(g.st.voteFor) == string(value) {
			return nil
		}
		if len(value) > MaxExtensionBytes {
			return fmt.Errorf("wal: group %s: candidate has %d bytes", g.id, len(value))
		}
		g.st.voteTerm, g.st.voteFor = g.pendingVote, append([]byte{}, value...)
		g.put(CauseVote)
		return nil
	})
}

// put writes a state that has changed.
func (g *GroupLog) put(cause Cause) {
	if !g.exists() {
		g.create()
		return
	}
	g.putState(cause)
}

// SetUint64 implements raft.StableStore for CurrentTerm and LastVoteTerm. A term that is already
// stored is not written again, as raft would do at every start of a group. A term does not wait for
// the disk: others rely on it only through a vote or entries, which are behind the term in the
// stream and do wait.
func (g *GroupLog) SetUint64(key []byte, value uint64) error {
	switch string(key) {
	case keyVoteTerm:
		g.l.mu.Lock()
		defer g.l.mu.Unlock()
		g.pendingVote = value
		return g.usable()
	case keyTerm:
		return g.change(false, func() error {
			if g.st.term == value {
				return nil
			}
			g.st.term = value
			g.put(CauseTerm)
			return nil
		})
	default:
		return fmt.Errorf("wal: group %s: %q %w", g.id, key, errKey)
	}
}

// Get implements raft.StableStore; nil if there was no vote.
func (g *GroupLog) Get(key []byte) ([]byte, error) {
	if string(key) != keyVoteFor {
		return nil, fmt.Errorf("wal: group %s: %q %w", g.id, key, errKey)
	}
	g.l.mu.Lock()
	defer g.l.mu.Unlock()
	return g.st.voteFor, g.usable()
}

// GetUint64 implements raft.StableStore; 0 if there was no term or vote.
func (g *GroupLog) GetUint64(key []byte) (uint64, error) {
	g.l.mu.Lock()
	defer g.l.mu.Unlock()
	switch string(key) {
	case keyVoteTerm:
		return g.st.voteTerm, g.usable()
	case keyTerm:
		return g.st.term, g.usable()
	default:
		return 0, fmt.Errorf("wal: group %s: %q %w", g.id, key, errKey)
	}
}
