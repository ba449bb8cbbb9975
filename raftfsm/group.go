package raftfsm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

// closeDrain is how long Close waits for entries that raft still has to answer. It is met where the disk hangs, and on a
// leader of a driven group that has lost its quorum: raft would keep that one for minutes.
const closeDrain = 2 * time.Second

// bootstrapTimeout bounds the wait for raft to take a first configuration.
const bootstrapTimeout = 5 * time.Second

// Group is one member of a Raft group. All methods may be called concurrently.
//
// Goroutines: raft's, the proposer while it has work, and for a short time one that completes
// entries after a loss of leadership, one that takes a snapshot, and on the leader of a driven
// group, after a burst of entries, some that notify the followers. Locks: each guards one part, and
// none is held while another is taken, except leading.mu, under which the Effector is called.
type Group[R, E any] struct {
	c     Config[R, E]
	log   *slog.Logger
	snaps *snapshots
	raft  atomic.Pointer[raft.Raft] // nil while Open restores

	mu      sync.Mutex // around the machine
	machine Machine[R, E]
	// unacted means that the Effector does not have the effects of the newest command yet; readers wait for that.
	// Both belong to mu.
	unacted bool
	readers []func()

	bodies   bodyReader
	proposer proposer[R]
	leading  leading
	stamps   stamps
	watch    watch
	// configured is written by raft's goroutine that applies entries.
	configured atomic.Pointer[configured]
	base       atomic.Pointer[Base] // never nil; the zero value once the log has reached it
	compact    compaction
	pusher     pusher
	disk       *durability
	store      *guard
	out        *gate

	noReplies []any // belongs to raft's goroutine of the machine

	applied  atomic.Uint64
	applies  atomic.Uint64 // odd while entries are applied or a snapshot is restored; see ReadAt
	entries  atomic.Uint64
	commands atomic.Uint64

	failure  atomic.Pointer[error]
	stop     chan struct{} // closed by Close or by a failure
	stopping sync.Once
	closing  sync.Once
	raftStop sync.Once
	closeErr error

	raftStopped raft.Future    // set by raftStop
	spawning    sync.Mutex     // between spawn and the end of spawning
	work        sync.WaitGroup // goroutines that Close waits for
}

// Open starts the member from its stores. A member with empty stores waits for Bootstrap or for a
// leader. The storage then belongs to the group; if Open fails, it still belongs to the caller.
func Open[R, E any](c Config[R, E]) (*Group[R, E], error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	snaps, ok := c.Snapshots.(*snapshots)
	if !ok {
		return nil, fmt.Errorf("raftfsm: Config.Snapshots is a %T: use OpenSnapshots", c.Snapshots)
	}
	g := &Group[R, E]{
		c: c, machine: c.Machine, snaps: snaps,
		log:  c.Logger.With("group", c.Group.String()),
		stop: make(chan struct{}),
	}
	g.bodies.cache = c.BodyCache
	g.proposer.pipeline = c.Pipeline
	g.proposer.limits = limits{c.MaxInFlight, c.MaxBatchCommands, int64(c.MaxBatchBytes)}
	g.proposer.begin = func() { g.spawn(g.steps) }
	g.watch.changed, g.watch.onChange = make(chan struct{}), c.OnChange
	g.base.Store(&c.Base)
	if err := snaps.bind(c.Group, snapshotOwner{g.log, g.compactSoon, g.fail}); err != nil {
		return nil, err
	}
	snaps.early = c.open&openSnapshot != 0
	if err := snaps.recover(); err != nil {
		return nil, fmt.Errorf("raftfsm: group %s: %w", c.Group, err)
	}
	if err := c.raiseTerm(); err != nil {
		return nil, fmt.Errorf("raftfsm: group %s: storing the term of its base: %w", c.Group, err)
	}
	r, err := g.startRaft()
	if err != nil {
		return nil, fmt.Errorf("raftfsm: group %s: %w", c.Group, err)
	}
	snaps.started(r.AppliedIndex)
	g.raft.Store(r)
	r.RegisterObserver(raft.NewObserver(nil, false, g.observe))
	if g.Failed() != nil { // by an entry that was applied before the line above
		g.stopRaft()
	}
	if g.out.waits() {
		g.spawn(g.out.serve)
	}
	g.proposer.signal() // changes of raft's before it was observed
	return g, nil
}

// startRaft runs raft.NewRaft, which panics when it cannot read the log.
func (g *Group[R, E]) startRaft() (r *raft.Raft, err error) {
	defer func() {
		if p := recover(); p != nil {
			cause, ok := p.(error)
			if !ok {
				cause = fmt.Errorf("%v", p)
			}
			r, err = nil, fmt.Errorf("the log cannot be read: %w", cause)
		}
	}()
	lag := newStopwatch(g.c.StallTimeout, g.watch.announce)
	g.disk = newDurability(g.c.Storage, lag, g.fail)
	g.store = &guard{
		to: g.c.Storage, fail: g.fail, base: time.Now(), disk: g.disk,
		writes:  newStopwatch(g.c.StallTimeout, g.watch.announce),
		running: func() bool { return g.raft.Load() != nil },
		votes:   voters{configuration: g.configuration},
		barred:  g.barred, needed: g.needed,
	}
	silent := func() bool { return g.Failed() != nil || g.Stalled() }
	leads := func(term uint64) bool { return leaderTerm(g.raft.Load()) == term }
	g.out = newGate(g.c.Transport, g.disk, g.c.open, silent, known{g.covers, g.follows, g.hear, leads}, g.stop)
	r, err = raft.NewRaft(g.c.raftConfig(g.log), fsm[R, E]{g}, g.store, g.store, g.snaps, g.out)
	if failed := g.Failed(); failed != nil && err != nil {
		return nil, failed
	}
	return r, err
}

// configuration returns raft's newest configuration, nil before raft runs.
func (g *Group[R, E]) configuration() *raft.Configuration {
	r := g.raft.Load()
	if r == nil {
		return nil
	}
	f := r.GetConfiguration() // it does not wait for raft
	if f.Error() != nil {
		return nil
	}
	c := f.Configuration()
	return &c
}

// Bootstrap writes the first configuration; every first member calls it with the same list. It does
// nothing if the member already has entries or a snapshot.
func (g *Group[R, E]) Bootstrap(members []id.NodeID) error {
	var c raft.Configuration
	for _, m := range members {
		c.Servers = append(c.Servers, raft.Server{ID: raft.ServerID(m), Address: raft.ServerAddress(m)})
	}
	err := g.await(context.Background(), func(r *raft.Raft) raft.Future { return r.BootstrapCluster(c) })
	switch {
	case err == nil, errors.Is(err, ErrStopped):
		return err
	case errors.Is(err, raft.ErrCantBootstrap):
		return g.bootstrapLate(c)
	default:
		return fmt.Errorf("raftfsm: group %s: bootstrap with %v: %w", g.c.Group, members, err)
	}
}

// bootstrapLate is Bootstrap of a member that has voted before: raft refuses it then, and
// if the leader that it voted for is gone, the members would wait for a configuration for
// ever. The entry, the same on all members, comes as if from a leader instead.
func (g *Group[R, E]) bootstrapLate(c raft.Configuration) error {
	r := g.raft.Load()
	if _, can := g.c.Transport.(injector); !can || r.LastIndex() > 0 || g.snaps.latest() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), bootstrapTimeout)
	defer cancel()
	return g.inject(ctx, &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}, Term: r.CurrentTerm(),
		Entries: []*raft.Log{{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(c)}},
	})
}

// Read calls f while no command is being applied. f must be short and must only read the machine.
func (g *Group[R, E]) Read(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
}

// ReadActed is Read at a moment when the Effector has the effects of all that f sees, and of nothing else: what f adds to
// what the Effector keeps comes behind all of these, and before those of later commands. If some are on their way,
// ReadActed returns at once, and f is called on the apply path.
func (g *Group[R, E]) ReadActed(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.unacted {
		g.readers = append(g.readers, f)
		return
	}
	f()
}

// acted calls those that have waited for the effects of the newest command.
func (g *Group[R, E]) acted() {
	g.mu.Lock()
	defer g.mu.Unlock()
	waiting := g.readers
	g.unacted, g.readers = false, nil
	for _, f := range waiting {
		f()
	}
}

// ReadAt is Read with the index of the last entry that the machine has applied. ok is false if entries
// were being applied meanwhile: then it is unknown which of them f has seen.
func (g *Group[R, E]) ReadAt(f func()) (index uint64, ok bool) {
	before := g.applies.Load()
	index = g.applied.Load()
	g.Read(f)
	return index, before%2 == 0 && g.applies.Load() == before
}

// AppliedAll reports whether the machine has applied all of the log. Stats.AppliedIndex does not show that: barriers of raft's
// own, which no machine gets, may be the newest entries. It is false if these can no longer be read.
func (g *Group[R, E]) AppliedAll() bool {
	last := g.raft.Load().LastIndex()
	for i := g.applied.Load() + 1; i <= last; i++ {
		var l raft.Log
		if g.c.Storage.GetLog(i, &l) != nil || l.Type != raft.LogNoop && l.Type != raft.LogBarrier {
			return false
		}
	}
	return true
}

// Members returns the voters of the newest configuration.
func (g *Group[R, E]) Members() ([]id.NodeID, error) {
	c, err := g.Configuration()
	return c.Voters, err
}

// Stats are a group's statistics.
type Stats struct {
	Term, CommitIndex, AppliedIndex, SnapshotIndex, LastIndex, FirstIndex uint64
	PendingBytes                                                          int64
	Transfers                                                             int    // snapshots being sent or received
	Entries, Commands                                                     uint64 // applied since start
	Leader                                                                id.NodeID
	State                                                                 string
}

// longLog is a number of entries after the last snapshot that a joining member should not have to receive and apply: it
// applies a few thousand a second on a busy machine.
const longLog = 2048

// Long reports whether a snapshot is worth taking before a member joins.
func (s Stats) Long() bool { return s.LastIndex-s.SnapshotIndex > longLog }

// Stats returns the group's statistics.
func (g *Group[R, E]) Stats() Stats {
	r := g.raft.Load()
	s := Stats{
		CommitIndex: r.CommitIndex(), LastIndex: r.LastIndex(), AppliedIndex: g.applied.Load(),
		PendingBytes: g.proposer.pendingBytes(), Entries: g.entries.Load(), Commands: g.commands.Load(),
		State: r.State().String(),
	}
	s.Leader, s.Term = g.Leader()
	s.Transfers = g.snaps.transfers()
	if f := g.snaps.latest(); f != nil {
		s.SnapshotIndex = f.index
	}
	if first, err := g.c.Storage.FirstIndex(); err == nil {
		s.FirstIndex = first
	}
	return s
}

// Progress is the progress of a group's log on this node.
type Progress struct{ Term, Commit, Last, Snapshot uint64 }

// Progress returns it. It is cheap: metrics ask all groups.
func (g *Group[R, E]) Progress() Progress {
	r := g.raft.Load()
	p := Progress{Term: r.CurrentTerm(), Commit: r.CommitIndex(), Last: r.LastIndex()}
	if f := g.snaps.latest(); f != nil {
		p.Snapshot = f.index
	}
	return p
}

// Failed returns the error that stopped the group on this node, nil while it runs. A broken
// invariant or a corrupt record stops it.
func (g *Group[R, E]) Failed() error {
	if p := g.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// stopped is the error of calls on a group that no longer runs.
func (g *Group[R, E]) stopped() error {
	if err := g.Failed(); err != nil {
		return fmt.Errorf("%w: %w", ErrStopped, err)
	}
	return ErrStopped
}

// fail stops the group on this node for good; the node continues. It may be called from any goroutine, raft's
// included, but not with a lock held.
func (g *Group[R, E]) fail(err error) {
	err = fmt.Errorf("raftfsm: group %s on node %q stopped: %w", g.c.Group, g.c.Node, err)
	if !g.failure.CompareAndSwap(nil, &err) {
		return
	}
	remedy := "look at the disk; damaged or broken members are rebuilt from their peers by themselves, others begin anew with the node"
	if errors.Is(err, ErrUnreadable) {
		remedy = "start this node with a newer build, that of the other nodes: the member carries on; remove nothing"
	}
	g.log.Error("group stopped on this node; its other members go on",
		"node", string(g.c.Node), "applied_index", g.applied.Load(), "error", err, "remedy", remedy)
	g.halt()
	g.stopRaft()
}

// stopRaft shuts raft down without waiting; the future is nil while Open restores.
func (g *Group[R, E]) stopRaft() raft.Future {
	r := g.raft.Load()
	if r == nil {
		return nil
	}
	// Only the first shutdown's future waits for raft's goroutines.
	g.raftStop.Do(func() { g.raftStopped = r.Shutdown() })
	return g.raftStopped
}

// halt ends proposals and leadership: what was handed to raft has an unknown outcome.
func (g *Group[R, E]) halt() {
	g.stopping.Do(func() { close(g.stop) })
	g.disk.end(errShut)
	g.cease(0)
	g.refuseAll()
	g.watch.announce()
}

// Close stops the member and closes the transport and the storage. Commands in flight end with
// ErrStopped or ErrUnknownOutcome. Close waits for raft's goroutines, and so for the disk; unless Drain was called, it
// first waits a moment for the commands.
func (g *Group[R, E]) Close() error {
	g.closing.Do(func() { g.closeErr = g.shutdown() })
	return g.closeErr
}

// shutdown returns when no goroutine of the group runs any more, and its storage is closed.
func (g *Group[R, E]) shutdown() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeDrain)
	defer cancel()
	if g.Failed() == nil {
		g.Drain(ctx)
	}
	g.halt()
	stopped := g.stopRaft()
	// Raft waits for its calls before it closes the transport, and a call to a member that
	// is down waits for a connection.
	if t, ok := g.c.Transport.(raft.WithClose); ok {
		if err := t.Close(); err != nil {
			g.log.Warn("closing the group's transport", "error", err)
		}
	}
	err := stopped.Error()
	g.spawning.Lock()   // a holder sees that the group is stopping from here on
	g.spawning.Unlock() //nolint:staticcheck // nothing to do in between
	g.work.Wait()
	g.bodies.cache.forget(g.c.Group)
	return errors.Join(err, g.c.Storage.Close())
}
