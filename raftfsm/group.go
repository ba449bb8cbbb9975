package raftfsm

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

// Config describes one member of a group. Zero values are the defaults.
type Config[R, E any] struct {
	Group     id.GroupID
	Node      id.NodeID // this member; its raft.ServerID and ServerAddress
	Machine   Machine[R, E]
	Effector  Effector[E] // nil if the machine has no effects
	Storage   Storage
	Snapshots raft.SnapshotStore
	Transport raft.Transport
	Logger    *slog.Logger
	// Now stamps commands, milliseconds since the Unix epoch; nil is the wall clock.
	Now func() int64

	HeartbeatTimeout time.Duration // 0: 500 ms
	ElectionTimeout  time.Duration // 0: 500 ms
	MaxBatchCommands int           // commands in one entry; 0: 256
	MaxBatchBytes    int           // bytes of an entry; 0: 1 MiB
	MaxInFlight      int           // entries proposed and not yet applied; 0: 8
	MaxPendingBytes  int64         // proposed and not yet applied, else ErrBusy; 0: 64 MiB
	BodyCache        *BodyCache    // shared by the node's groups; nil: a small one of its own
}

// Group is one member of a Raft group. All methods may be called concurrently.
type Group[R, E any] struct{}

// Open starts the member from what its stores hold. A member whose stores are empty
// waits for Bootstrap or for a leader.
func Open[R, E any](c Config[R, E]) (*Group[R, E], error) { return nil, errors.New("raftfsm: not yet") }

// Bootstrap writes the first configuration; every first member does so with the same
// list. It does nothing if the member has state already.
func (g *Group[R, E]) Bootstrap(members []id.NodeID) error { return nil }

// Propose puts a command into the log and returns the machine's reply once it is
// committed and applied here. Errors: *NotLeaderError, ErrBusy, ErrStopped (not in the
// log), ErrUnknownOutcome or ctx's error (unknown).
func (g *Group[R, E]) Propose(ctx context.Context, c Command) (R, error) {
	var r R
	return r, nil
}

// Submit is Propose without waiting: done is called exactly once, possibly before
// Submit returns, in log order for commands that were applied, and must not block.
func (g *Group[R, E]) Submit(c Command, done func(R, error)) {}

// Read runs f while no command is applied. f must be short and only read the machine.
func (g *Group[R, E]) Read(f func()) {}

// Barrier returns when everything committed before the call is applied here and this
// member was still the leader: what Read then shows is not stale.
func (g *Group[R, E]) Barrier(ctx context.Context) error { return nil }

// Body returns a body as it was proposed. The bytes must not be changed.
// raft.ErrLogNotFound if it is no longer retained.
func (g *Group[R, E]) Body(ref BodyRef) ([]byte, error) { return nil, nil }

// Leader returns the leader as this member knows it, "" if none, and its term.
func (g *Group[R, E]) Leader() (id.NodeID, uint64) { return "", 0 }

// Leading tells whether this member leads by its own Lead command.
func (g *Group[R, E]) Leading() bool { return false }

// TransferLeadership hands leadership to a member, or to the best one if to is "".
func (g *Group[R, E]) TransferLeadership(ctx context.Context, to id.NodeID) error { return nil }

// Members returns the voters of the newest configuration.
func (g *Group[R, E]) Members() ([]id.NodeID, error) { return nil, nil }

// Changed returns a channel that is closed when the leader, the term or Leading changes
// the next time.
func (g *Group[R, E]) Changed() <-chan struct{} { return nil }

// Stats returns the group's figures.
func (g *Group[R, E]) Stats() Stats { return Stats{} }

// Snapshot takes a snapshot now and compacts the log.
func (g *Group[R, E]) Snapshot() error { return nil }

// Failed returns the error that stopped the group, nil while it runs: a broken
// invariant or a corrupt record stops the group on this node.
func (g *Group[R, E]) Failed() error { return nil }

// Close stops the member; commands in flight end with ErrStopped or ErrUnknownOutcome.
// It closes the storage too.
func (g *Group[R, E]) Close() error { return nil }

// Stats are a group's figures.
type Stats struct {
	Term, CommitIndex, AppliedIndex, SnapshotIndex, LastIndex, FirstIndex uint64
	PendingBytes                                                          int64
	Entries, Commands                                                     uint64 // applied since start
	Leader                                                                id.NodeID
	State                                                                 string
}

// BodyCache keeps the bodies of recent entries within a budget of bytes; a node's
// groups share one. All methods may be called concurrently.
type BodyCache struct{}

// NewBodyCache returns a cache of at most maxBytes.
func NewBodyCache(maxBytes int64) *BodyCache { return &BodyCache{} }

// OpenBolt opens, or creates, a group's storage in one bolt file.
func OpenBolt(path string) (Storage, error) { return nil, errors.New("raftfsm: not yet") }

// OpenSnapshots opens, or creates, a group's snapshot directory. Snapshots hold the
// machine's bytes; when one is sent, live bodies from the storage follow them.
func OpenSnapshots(dir string, s Storage) (raft.SnapshotStore, error) {
	return nil, errors.New("raftfsm: not yet")
}
