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
	liveBytes      int64 // of the last snapshot: the machine and, by the mean, its entries
	machineBytes   int   // of the last snapshot, to allocate once
	running        atomic.Bool
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
		c.bytes > uint64(max(g.c.SnapshotBytes, snapshotLiveFactor*c.liveBytes))
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

// Snapshot implements raft.FSM. No command is applied until it returns, so it takes only
// what has to be of one moment: the machine's bytes and the references to bodies.
func (f fsm[R, E]) Snapshot() (raft.FSMSnapshot, error) {
	g := f.g
	if err := g.Failed(); err != nil {
		return nil, err
	}
	c := &g.compact
	var live liveBuilder
	g.mu.Lock()
	machine := g.machine.AppendSnapshot(make([]byte, 0, c.machineBytes+c.machineBytes/8))
	var err error
	for ref := range g.machine.Live() {
		if err = live.add(ref); err != nil {
			break
		}
	}
	g.mu.Unlock()
	if err != nil {
		g.fail(err)
		return nil, err
	}
	live.finish()
	c.bytes, c.entries, c.machineBytes = 0, 0, len(machine)
	c.liveBytes = int64(len(machine))
	if c.allEntries > 0 {
		c.liveBytes += int64(live.entries * (c.allBytes / c.allEntries))
	}
	return &machineSnapshot{machine: machine, live: live.set}, nil
}

// machineSnapshot is a raft.FSMSnapshot: the state of one moment.
type machineSnapshot struct {
	machine []byte
	live    liveSet
}

// Persist implements raft.FSMSnapshot.
func (s *machineSnapshot) Persist(to raft.SnapshotSink) error {
	k, ok := to.(*snapshotSink)
	if !ok {
		return fmt.Errorf("raftfsm: snapshot goes to a %T: use OpenSnapshots", to)
	}
	if err := k.writeLocal(s.machine, s.live); err != nil {
		return err
	}
	return k.Close()
}

// Release implements raft.FSMSnapshot.
func (s *machineSnapshot) Release() { s.machine, s.live = nil, nil }
