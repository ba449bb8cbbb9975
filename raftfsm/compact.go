package raftfsm

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// When a snapshot is due, see Config.
const (
	defaultSnapshotBytes   = 16 << 20
	defaultSnapshotEntries = 8 * 8192
	snapshotLiveFactor     = 2 // entries since the last snapshot against live state
)

// compaction counts what a snapshot would let go. The counters belong to raft's
// goroutine of the machine.
type compaction struct {
	bytes, entries uint64 // since the last snapshot was begun
	allBytes       uint64 // since start, for the size of a mean entry
	allEntries     uint64
	running        atomic.Bool
	taken          atomic.Uint64 // states that were frozen

	// Of the last snapshot; written by the goroutine that stores it.
	liveBytes    atomic.Int64 // the machine and, by the mean, its entries
	machineBytes atomic.Int64 // to allocate once
}

func (c *compaction) count(bytes int) {
	c.bytes += uint64(bytes)
	c.entries++
	c.allBytes += uint64(bytes)
	c.allEntries++
}

// snapshotIfDue begins a snapshot when enough entries have gathered behind the last one.
func (g *Group[R, E]) snapshotIfDue() {
	c := &g.compact
	due := c.entries >= g.c.SnapshotEntries ||
		c.bytes > uint64(max(g.c.SnapshotBytes, snapshotLiveFactor*c.liveBytes.Load()))
	if !due || g.raft.Load() == nil || !c.running.CompareAndSwap(false, true) {
		return
	}
	g.spawn(func() {
		defer c.running.Store(false)
		if err := g.Snapshot(); err != nil && !errors.Is(err, ErrStopped) {
			g.log.Warn("snapshot failed; the log keeps growing until the next one", "error", err)
		}
	})
}

// spawn runs f on a goroutine that Close waits for, unless the group is closing.
func (g *Group[R, E]) spawn(f func()) {
	g.spawning.Lock()
	defer g.spawning.Unlock()
	if !g.isStopping() {
		g.work.Go(f)
	}
}

// Snapshot takes a snapshot now and compacts the log.
func (g *Group[R, E]) Snapshot() error {
	err := g.raft.Load().Snapshot().Error()
	switch {
	case errors.Is(err, raft.ErrNothingNewToSnapshot):
		return nil
	case errors.Is(err, raft.ErrRaftShutdown):
		return g.stopped()
	case err != nil:
		return fmt.Errorf("raftfsm: group %s: snapshot: %w", g.c.Group, err)
	}
	return g.dropDead()
}

// dropDead lets the storage forget what the durable snapshot does not refer to.
func (g *Group[R, E]) dropDead() error {
	if err := g.snaps.compact(); err != nil {
		g.fail(err)
		return g.stopped()
	}
	return nil
}

// compactSoon is told by the snapshot store that a put off compaction may be done.
func (g *Group[R, E]) compactSoon() {
	g.spawn(func() {
		// A failure has stopped the group and was logged by fail.
		_ = g.dropDead()
	})
}

// Snapshot implements raft.FSM. No command is applied until it returns.
func (f fsm[R, E]) Snapshot() (raft.FSMSnapshot, error) {
	g := f.g
	if err := g.Failed(); err != nil {
		return nil, err
	}
	c := &g.compact
	s := &machineSnapshot{fail: g.fail, compact: c}
	if c.allEntries > 0 {
		s.entryBytes = c.allBytes / c.allEntries
	}
	c.bytes, c.entries = 0, 0
	g.mu.Lock()
	s.state = g.machine.Freeze()
	g.mu.Unlock()
	c.taken.Add(1)
	return s, nil
}

// machineSnapshot is a raft.FSMSnapshot: the state of one moment.
type machineSnapshot struct {
	state      Frozen
	entryBytes uint64 // of a mean entry
	compact    *compaction
	fail       func(error) // stops the group
}

// Persist implements raft.FSMSnapshot. Commands are applied meanwhile.
func (s *machineSnapshot) Persist(to raft.SnapshotSink) error {
	k, ok := to.(*snapshotSink)
	if !ok {
		return fmt.Errorf("raftfsm: snapshot goes to a %T: use OpenSnapshots", to)
	}
	machine, live, err := s.encode()
	if err != nil {
		s.fail(err)
		return err
	}
	if err := k.writeLocal(machine, live); err != nil {
		return err
	}
	return k.Close()
}

// encode turns a panic of the machine, which is a broken invariant, into an error.
func (s *machineSnapshot) encode() (machine []byte, _ liveSet, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("machine panicked over its snapshot: %v", p)
		}
	}()
	n := s.compact.machineBytes.Load()
	machine = s.state.AppendSnapshot(make([]byte, 0, n+n/8))
	var live liveBuilder
	for run := range s.state.Live() {
		if err := live.add(run); err != nil {
			return nil, nil, err
		}
	}
	live.finish()
	s.compact.machineBytes.Store(int64(len(machine)))
	s.compact.liveBytes.Store(int64(len(machine)) + int64(live.entries*s.entryBytes))
	return machine, live.set, nil
}

// Release implements raft.FSMSnapshot.
func (s *machineSnapshot) Release() { s.state = nil }
