package raftfsm

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/clock"
	"github.com/quorate/quorate/id"
)

// Defaults of Config.
const (
	defaultTimeout          = 500 * time.Millisecond
	defaultStallTimeout     = 1500 * time.Millisecond
	defaultMaxBatchCommands = 256
	defaultMaxBatchBytes    = 1 << 20
	defaultMaxInFlight      = 8
	defaultMaxPendingBytes  = 64 << 20
	defaultBodyCacheBytes   = 4 << 20
)

// Settings of raft, for every group alike.
const (
	maxAppendEntries = 64 // entries in one request to a follower, and in raft's inbox
	commitTimeout    = 20 * time.Millisecond
	// Timers of driven groups: of followers and candidates, and of a leader's commits. A
	// leader's lease is half of the first, and it sends heartbeats each 10th to 5th of it: ten
	// thousand groups with timers of ten minutes would send 200 a second.
	drivenTimeout       = 12 * time.Hour
	drivenCommitTimeout = 6 * time.Hour
	trailingLogs        = 1024 // entries kept for a follower that is a little behind
	// raft's own schedule of snapshots is switched off: the group decides by bytes.
	never = 365 * 24 * time.Hour
)

// Config describes one member of a group. Zero values are the defaults.
type Config[R, E any] struct {
	Group     id.GroupID
	Node      id.NodeID // this member; its raft.ServerID and ServerAddress
	Machine   Machine[R, E]
	Effector  Effector[E] // nil if the machine has no effects
	Storage   Storage
	Snapshots raft.SnapshotStore // from OpenSnapshots
	Transport raft.Transport     // with raft.WithPreVote
	Logger    *slog.Logger
	// OnChange is called, from any goroutine, whenever the channel of Changed would be closed, and
	// saves a goroutine that waits for it. It must not block or call the group. nil: nothing is
	// called.
	OnChange func()
	// Clock returns the time of the cluster, with which this member stamps commands while it leads;
	// it proposes nothing before that time is reliable. nil: the wall clock. It must not block.
	Clock func() clock.Moment
	// Base is that of a member that began with nothing; see Group.Base. Zero: it has none.
	Base Base

	HeartbeatTimeout time.Duration // 0: 500 ms
	ElectionTimeout  time.Duration // 0: 500 ms
	// Driven groups have no timers of their own. The owner calls Campaign when it finds that the
	// leader is dead or that the group is new, and StepDown when a leader has lost its quorum or a
	// candidate is stuck. The two timeouts above have no effect then; raft's are twelve hours. A
	// driven group needs a transport with Inject.
	Driven bool
	// PushAfter is how long after the last entry of a burst the leader of a driven group sends the
	// commit index to its followers, which apply the last entries that much later. 0: 30 ms.
	PushAfter time.Duration
	// PushAtOnce makes the leader of a driven group send the commit index as soon as an entry is
	// applied and the calls before are answered, instead of after PushAfter. It is for groups that
	// change rarely and whose followers are waited for.
	PushAtOnce       bool
	MaxBatchCommands int        // commands in one entry; 0: 256
	MaxBatchBytes    int        // bytes of an entry; 0: 1 MiB
	MaxInFlight      int        // entries proposed and not yet applied; 0: 8
	MaxPendingBytes  int64      // proposed and not yet applied, else ErrBusy; 0: 64 MiB
	BodyCache        *BodyCache // shared by the node's groups; nil: a small one of its own
	Pipeline         *Pipeline  // shared by the node's groups; nil: one of its own

	// A snapshot is due when the entries since the last one have more bytes than both SnapshotBytes
	// and twice the live state, when the same is true for the bytes in the log that the machine has
	// released, or when there are SnapshotEntries entries.
	SnapshotBytes   int64  // 0: 16 MiB
	SnapshotEntries uint64 // 0: 65,536
	// A leader whose write to disk takes longer than StallTimeout stops sending, so that the others
	// elect another leader. 0: 1.5 s; negative: never.
	StallTimeout time.Duration
	// Hangs reports whether the node's disk hangs: then the member acts as if a write of its own
	// hung. It must not block. nil: the disk never hangs.
	Hangs func() bool
	// TrailingEntries is how many entries stay in the log behind a snapshot for followers that are
	// slightly behind, within 4 MiB. 0: 1024.
	TrailingEntries uint64
	// Scarce reports whether the node's disk is low: then snapshots are due sooner, and leave
	// almost no entries behind. It must not block. nil: the disk is never low.
	Scarce func() bool

	open openGate // tests show that each gate is needed
}

// Validate returns all faults of the configuration.
func (c *Config[R, E]) Validate() error {
	var errs []error
	missing := func(is bool, field string) {
		if is {
			errs = append(errs, fmt.Errorf("raftfsm: Config.%s is missing", field))
		}
	}
	missing(c.Group == 0, "Group")
	missing(c.Node == "", "Node")
	missing(c.Machine == nil, "Machine")
	missing(c.Storage == nil, "Storage")
	missing(c.Snapshots == nil, "Snapshots")
	missing(c.Transport == nil, "Transport")
	if _, ok := c.Snapshots.(*snapshots); c.Snapshots != nil && !ok {
		errs = append(errs, fmt.Errorf("raftfsm: Config.Snapshots is a %T: use OpenSnapshots", c.Snapshots))
	}
	if _, ok := c.Transport.(raft.WithPreVote); c.Transport != nil && !ok {
		errs = append(errs, fmt.Errorf("raftfsm: Config.Transport %T lacks raft.WithPreVote", c.Transport))
	}
	if _, ok := c.Transport.(injector); c.Driven && !ok {
		errs = append(errs, fmt.Errorf("raftfsm: Config.Driven is set, but transport %T cannot Inject", c.Transport))
	}
	within := func(field string, v, most int64) {
		if v < 0 || v > most {
			errs = append(errs, fmt.Errorf("raftfsm: Config.%s is %d, must be in 0..%d", field, v, most))
		}
	}
	within("HeartbeatTimeout", int64(c.HeartbeatTimeout), int64(never))
	within("ElectionTimeout", int64(c.ElectionTimeout), int64(never))
	within("PushAfter", int64(c.PushAfter), int64(pushMax))
	within("MaxBatchCommands", int64(c.MaxBatchCommands), maxEntryCommands)
	within("MaxBatchBytes", int64(c.MaxBatchBytes), MaxCommandBytes)
	// One place in raft's inbox is left for the Lead command.
	within("MaxInFlight", int64(c.MaxInFlight), maxAppendEntries-1)
	within("MaxPendingBytes", c.MaxPendingBytes, math.MaxInt64)
	within("SnapshotBytes", c.SnapshotBytes, math.MaxInt64)
	d := c.withDefaults()
	if d.ElectionTimeout < d.HeartbeatTimeout {
		errs = append(errs, fmt.Errorf("raftfsm: Config.ElectionTimeout is %v, must not be below HeartbeatTimeout %v",
			d.ElectionTimeout, d.HeartbeatTimeout))
	}
	return errors.Join(errs...)
}

// withDefaults is called after Validate.
func (c Config[R, E]) withDefaults() Config[R, E] {
	c.HeartbeatTimeout = orDefault(c.HeartbeatTimeout, defaultTimeout)
	c.ElectionTimeout = orDefault(c.ElectionTimeout, max(defaultTimeout, c.HeartbeatTimeout))
	c.MaxBatchCommands = orDefault(c.MaxBatchCommands, defaultMaxBatchCommands)
	c.MaxBatchBytes = orDefault(c.MaxBatchBytes, defaultMaxBatchBytes)
	c.MaxInFlight = orDefault(c.MaxInFlight, defaultMaxInFlight)
	c.MaxPendingBytes = orDefault(c.MaxPendingBytes, defaultMaxPendingBytes)
	c.SnapshotBytes = orDefault(c.SnapshotBytes, defaultSnapshotBytes)
	c.SnapshotEntries = orDefault(c.SnapshotEntries, defaultSnapshotEntries)
	c.TrailingEntries = orDefault(c.TrailingEntries, trailingLogs)
	c.StallTimeout = orDefault(c.StallTimeout, defaultStallTimeout)
	c.PushAfter = orDefault(c.PushAfter, pushDelay)
	if c.Pipeline == nil {
		c.Pipeline = new(Pipeline)
	}
	if c.BodyCache == nil {
		c.BodyCache = NewBodyCache(defaultBodyCacheBytes)
	}
	if c.Scarce == nil {
		c.Scarce = func() bool { return false }
	}
	if c.Clock == nil {
		base := time.Now()
		c.Clock = func() clock.Moment {
			now := time.Now()
			return clock.Moment{Elapsed: now.Sub(base), Time: time.Duration(now.UnixNano()), Reliable: true}
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// orDefault takes the zero value for the default.
func orDefault[T comparable](v, d T) T {
	var zero T
	if v == zero {
		return d
	}
	return v
}

// raftConfig returns the configuration of raft.
func (c *Config[R, E]) raftConfig(logger *slog.Logger) *raft.Config {
	r := &raft.Config{
		ProtocolVersion:    raft.ProtocolVersionMax,
		LocalID:            raft.ServerID(c.Node),
		HeartbeatTimeout:   c.HeartbeatTimeout,
		ElectionTimeout:    c.ElectionTimeout,
		LeaderLeaseTimeout: c.HeartbeatTimeout / 2,
		CommitTimeout:      commitTimeout,
		MaxAppendEntries:   maxAppendEntries,
		BatchApplyCh:       true,
		TrailingLogs:       c.TrailingEntries,
		SnapshotInterval:   never,
		SnapshotThreshold:  math.MaxUint64,
		NoLegacyTelemetry:  true,
		// A member that was taken out is closed by who opened it.
		ShutdownOnRemove: false,
		Logger:           newRaftLogger(logger),
	}
	if c.Driven {
		r.HeartbeatTimeout, r.ElectionTimeout = drivenTimeout, drivenTimeout
		r.LeaderLeaseTimeout, r.CommitTimeout = drivenTimeout/2, drivenCommitTimeout
	}
	return r
}
