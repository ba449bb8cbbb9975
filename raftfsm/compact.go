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
	snapshotLiveFactor     = 2 // entries since the last snapshot, or what is let go, against live state
)

// compaction counts what a snapshot would let go.
type compaction struct {
	bytes    atomic.Uint64 // since the last snapshot was begun
	entries  uint64        // likewise; as the next two it belongs to raft's goroutine of the machine
	allBytes uint64        // since start, for the size of a mean entry
	allCount uint64
	running  atomic.Bool
	taken    atomic.Uint64 // states that were frozen

	last atomic.Pointer[footprint] // of the last snapshot; nil without one
}

// footprint is what a snapshot stands for, in bytes.
type footprint struct {
	machine uint64 // of the state, encoded
	log     uint64 // of the entries with live bodies, by the mean
	held    uint64 // Machine.HeldBytes
}

// live returns the bytes of state and entries.
func (w *footprint) live() int64 { return int64(w.machine + w.log) }

// count adds a command; only the apply path calls it.
func (c *compaction) count(bytes int) {
	c.bytes.Add(uint64(bytes))
	c.entries++
	c.allBytes += uint64(bytes)
	c.allCount++
}

// latest is the zero footprint before the first snapshot.
func (c *compaction) latest() footprint {
	if w := c.last.Load(); w != nil {
		return *w
	}
	return footprint{}
}

// weigh estimates, from the last snapshot and the entries since, how many bytes of both the machine needs, and how
// many it does not, when it holds held bytes. Bodies that are gone count as the snapshot's, because queues release
// the oldest first.
func (c *compaction) weigh(held uint64) (needed, excess int64) {
	w, since := c.latest(), c.bytes.Load()
	log := w.log
	if held < w.held {
		log = uint64(float64(w.log) * float64(held) / float64(w.held))
	} else {
		// The entries of small messages are more than their bodies.
		log += min(since, 2*(held-w.held))
	}
	return int64(w.machine + log), int64(w.log+since) - int64(log)
}

// snapshotIfDue begins a snapshot when it would free enough.
func (g *Group[R, E]) snapshotIfDue() {
	c := &g.compact
	if g.raft.Load() == nil || !g.due() || !c.running.CompareAndSwap(false, true) {
		return
	}
	g.spawn(func() {
		defer c.running.Store(false)
		if err := g.Snapshot(); err != nil && !errors.Is(err, ErrStopped) {
			g.log.Warn("snapshot failed; the log keeps growing until the next one", "error", err)
		}
	})
}

// due reports whether a snapshot is worth its cost: enough was applied since the last one, or the log holds
// much more than is needed.
func (g *Group[R, E]) due() bool {
	c := &g.compact
	w := c.latest()
	if c.entries >= g.c.SnapshotEntries || c.bytes.Load() > uint64(max(g.c.SnapshotBytes, snapshotLiveFactor*w.live())) {
		return true
	}
	needed, excess := c.weigh(g.held())
	if g.c.Scarce() {
		return excess > max(scarceBytes, needed/scarceShare)
	}
	return excess > max(g.c.SnapshotBytes, snapshotLiveFactor*needed)
}

// held asks the machine what it holds.
func (g *Group[R, E]) held() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.machine.HeldBytes()
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
func (g *Group[R, E]) Snapshot() error { return g.snapshotLeaving(g.Trailing()) }

// SnapshotAtRest is Snapshot for a group at rest whose members all have the whole log: almost no entries stay behind it.
func (g *Group[R, E]) SnapshotAtRest() error {
	return g.snapshotLeaving(min(uint64(minTrailing), g.c.TrailingEntries))
}

// snapshotLeaving leaves so many entries behind the snapshot in the log.
func (g *Group[R, E]) snapshotLeaving(entries uint64) error {
	g.setTrailing(entries)
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

// compactSoon is called by the snapshot store when a compaction that was put off may be done.
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
	if c.allCount > 0 {
		s.entryBytes = c.allBytes / c.allCount
	}
	c.bytes.Store(0)
	c.entries = 0
	g.mu.Lock()
	s.state, s.held = g.machine.Freeze(), g.machine.HeldBytes()
	g.mu.Unlock()
	c.taken.Add(1)
	return s, nil
}

// machineSnapshot is a raft.FSMSnapshot: the state of one moment.
type machineSnapshot struct {
	state      Frozen
	entryBytes uint64 // of a mean entry
	held       uint64 // Machine.HeldBytes
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
	n := s.compact.latest().machine // to allocate once
	machine = s.state.AppendSnapshot(make([]byte, 0, n+n/8))
	var live liveBuilder
	for run := range s.state.Live() {
		if err := live.add(run); err != nil {
			return nil, nil, err
		}
	}
	live.finish()
	s.compact.last.Store(&footprint{machine: uint64(len(machine)), log: max(s.held, live.entries*s.entryBytes), held: s.held})
	return machine, live.set, nil
}

// Release implements raft.FSMSnapshot.
func (s *machineSnapshot) Release() { s.state = nil }
