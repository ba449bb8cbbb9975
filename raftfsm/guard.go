package raftfsm

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// guard stands between raft and a group's storage. Raft steps down after a failed write and may try again later, and
// it panics when it cannot read an entry or store a term. The guard stops the group instead, and the node continues.
type guard struct {
	to      Storage
	fail    func(error)
	running func() bool // false while raft.NewRaft runs on the caller's goroutine
	base    time.Time
	writes  *stopwatch // of the write in progress
	disk    *durability
	votes   voters
	barred  func() bool // the member must not vote for itself
	needed  func(last uint64) uint64

	mu   sync.Mutex
	last struct{ index, term uint64 } // of the entry that was stored last; zero: not known
}

var (
	_ raft.LogStore          = (*guard)(nil)
	_ raft.StableStore       = (*guard)(nil)
	_ raft.MonotonicLogStore = (*guard)(nil)
)

// isNotFound knows an absent entry, and an absent key by the text that raft looks for.
func isNotFound(err error) bool {
	return errors.Is(err, raft.ErrLogNotFound) || err.Error() == "not found"
}

// do runs an operation of the storage. A storage may panic on what it reads.
func (g *guard) do(what string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: storage panicked: %w", what, corruptf("%v", p))
		}
		if err != nil && !isNotFound(err) {
			g.fail(err)
		}
	}()
	return f()
}

// write is do for what raft's main goroutine waits for: one write at a time.
func (g *guard) write(what string, f func() error) error {
	g.writes.start()
	defer g.writes.stop()
	return g.do(what, f)
}

// stalled reports whether a write has been in progress for too long, or something that was
// appended has waited too long for the disk.
func (g *guard) stalled() bool { return g.writes.over() || g.disk.lag.over() }

// end ends the calling goroutine of raft, which would panic if it were handed the error.
// Its deferred calls run, so that requests in its hands are answered with a failure.
func (g *guard) end() {
	if g.running() {
		runtime.Goexit()
	}
}

// IsMonotonic implements raft.MonotonicLogStore.
func (g *guard) IsMonotonic() bool {
	m, ok := g.to.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

// FirstIndex implements raft.LogStore. Raft calls it when it compacts, and for the gauge,
// whose goroutine it ends: that holds nothing, and nobody waits for it.
func (g *guard) FirstIndex() (first uint64, err error) {
	if inGauge() {
		runtime.Goexit()
	}
	err = g.do("first index", func() (err error) { first, err = g.to.FirstIndex(); return err })
	return first, err
}

// LastIndex implements raft.LogStore.
func (g *guard) LastIndex() (last uint64, err error) {
	err = g.do("last index", func() (err error) { last, err = g.to.LastIndex(); return err })
	return last, err
}

// GetLog implements raft.LogStore.
func (g *guard) GetLog(index uint64, out *raft.Log) error {
	err := g.do("read an entry", func() error {
		err := g.to.GetLog(index, out)
		if !errors.Is(err, raft.ErrLogNotFound) {
			return err
		}
		return g.missing(index, out)
	})
	if err != nil && !errors.Is(err, raft.ErrLogNotFound) {
		g.end()
	}
	return err
}

// missing distinguishes an entry that is not in the log from one that should be. Raft's other
// goroutines may append and truncate meanwhile, so it looks a second time.
func (g *guard) missing(index uint64, out *raft.Log) error {
	if inside, err := g.inside(index); err != nil || !inside {
		return cmp.Or(err, raft.ErrLogNotFound)
	}
	if err := g.to.GetLog(index, out); !errors.Is(err, raft.ErrLogNotFound) {
		return err
	}
	if inside, err := g.inside(index); err != nil || !inside {
		return cmp.Or(err, raft.ErrLogNotFound)
	}
	return fmt.Errorf("%w: entry %d is missing in the middle of the log", errCorrupt, index)
}

// inside reports whether the log has the entry.
func (g *guard) inside(index uint64) (bool, error) {
	first, err := g.to.FirstIndex()
	if err != nil || first == 0 || index < first {
		return false, err
	}
	last, err := g.to.LastIndex()
	return index <= last, err
}

// StoreLog implements raft.LogStore.
func (g *guard) StoreLog(l *raft.Log) error { return g.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore. Raft counts the entries as stored here when it
// returns. Where this member's own word may be enough to commit them, it returns when they
// are durable; otherwise a peer's answer is needed, and that waits for the disk (see gate).
func (g *guard) StoreLogs(logs []*raft.Log) error {
	err := g.write("append to the log", func() error {
		err := g.to.StoreLogs(logs)
		if err == nil && g.disk.later && g.votes.alone(logs) {
			err = g.to.Sync()
		}
		return err
	})
	g.disk.wrote()
	if n := len(logs); n > 0 && err == nil {
		g.ends(logs[n-1].Index, logs[n-1].Term)
	}
	return err
}

// DeleteRange implements raft.LogStore. Of the entries that a snapshot stands for, those that are needed stay: raft drops them
// with a later snapshot.
func (g *guard) DeleteRange(from, to uint64) error {
	last, err := g.LastIndex()
	if err != nil {
		return err
	}
	if to < last {
		to = min(to, g.needed(last)-1)
	}
	if to < from {
		return nil
	}
	g.votes.changed()
	if index, _ := g.newest(); to >= index {
		g.ends(0, 0)
	}
	return g.do("shorten the log", func() error { return g.to.DeleteRange(from, to) })
}

// ends notes the last entry, so that its term can be determined while the storage is busy.
func (g *guard) ends(index, term uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last.index, g.last.term = index, term
}

// newest returns the last entry's index and term, 0 if they are not known.
func (g *guard) newest() (index, term uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last.index, g.last.term
}

// Set implements raft.StableStore.
func (g *guard) Set(key, value []byte) error {
	return g.write("store "+string(key), func() error { return g.to.Set(key, value) })
}

// Get implements raft.StableStore.
func (g *guard) Get(key []byte) (value []byte, err error) {
	err = g.do("read "+string(key), func() (err error) { value, err = g.to.Get(key); return err })
	return value, err
}

// SetUint64 implements raft.StableStore. A term may return before it is durable: the vote
// or the entries by which others rely on it wait for it, as they come behind it.
func (g *guard) SetUint64(key []byte, value uint64) error {
	// The gate keeps a member that is behind from standing, but raft's own timers, hours long, do not ask it.
	if string(key) == keyVoteTerm && g.barred() {
		return errBehind
	}
	err := g.write("store "+string(key), func() error { return g.to.SetUint64(key, value) })
	g.disk.wrote()
	if err != nil && string(key) == keyTerm {
		g.end()
	}
	return err
}

// GetUint64 implements raft.StableStore.
func (g *guard) GetUint64(key []byte) (value uint64, err error) {
	err = g.do("read "+string(key), func() (err error) { value, err = g.to.GetUint64(key); return err })
	return value, err
}
