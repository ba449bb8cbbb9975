// Package raftfsm runs one pure machine as one Raft group of hashicorp/raft: it batches proposals
// into log entries, applies them in order, answers the proposers, passes effects to the Effector of
// the leader, takes and restores snapshots, and reads bodies from the log.
//
// It does not depend on queues: a command has a header, which the machine reads, and bodies, which
// stay in the log and are read by reference.
package raftfsm

import (
	"errors"
	"fmt"
	"iter"

	"github.com/quorate/quorate/id"
)

// Meta is the place and the time of a command in the log.
type Meta struct {
	Index     uint64 // Raft index of the entry
	FirstSlot uint32 // place of the command's first body among the entry's bodies
	NowMs     int64  // stamp of the proposing leader, in milliseconds since the Unix epoch
	More      bool   // other commands of the same entry, and so of the same index, follow
}

// BodyRef refers to a body by its log entry and its place among the entry's bodies.
type BodyRef struct {
	Index uint64
	Slot  uint32
}

// BodyRun refers to the bodies at Slots places from Slot on, in each of Entries entries from Index
// on. The entries are Stride apart; Stride is at least 1 if there are several.
type BodyRun struct {
	Index, Entries, Stride uint64
	Slot, Slots            uint32
}

// Machine is a deterministic state machine with replies R and effects E. The Group serialises all
// calls, so a Machine needs no lock.
type Machine[R, E any] interface {
	// Apply applies one command. The header is valid only during the call; bodies is the number of
	// the command's bodies in the entry. The reply must stay valid for good, the effects until the
	// next call. Apply must not panic on any input. An error, best ErrUnreadable, means that this
	// member cannot apply the command as the others do: it stops before anything later is applied.
	Apply(m Meta, header []byte, bodies int) (R, E, error)
	// Lead returns the header of the command by which a new leader takes over, or nil if the
	// machine has no effects.
	Lead(node id.NodeID, term uint64) []byte
	// Now returns the latest stamp of a command, in milliseconds since the Unix epoch; 0: there was
	// no command.
	Now() int64
	// Freeze returns the state of this moment. No command is applied meanwhile, so it must only
	// copy pointers.
	Freeze() Frozen
	// HeldBytes returns how many bytes of bodies the state refers to, in constant time.
	HeldBytes() uint64
	// Restore replaces the state. After an error the machine is no longer used. The error is
	// ErrUnreadable if another build can read the bytes.
	Restore(b []byte) error
}

// Frozen is a machine's state at one moment. One goroutine uses it while the machine keeps applying
// commands on another.
type Frozen interface {
	// Live yields the bodies that the state refers to, each once, ascending by index and within an
	// entry by slot. Runs of several entries do not overlap.
	Live() iter.Seq[BodyRun]
	// AppendSnapshot appends the state; equal states give equal bytes.
	AppendSnapshot(b []byte) []byte
}

// Effector acts on a machine's effects on the node that leads the group.
type Effector[E any] interface {
	// Act receives the effects of the entry at index, which are valid only during the call. It is
	// called on the apply path, in log order, and only between the apply of this node's own Lead
	// command and the loss of leadership. It must not block.
	Act(index uint64, e E)
	// Leading is called when this member begins to lead by its Lead command (true), before the Act
	// of the command's own effects, and when it ceases to lead (false). It must not block.
	Leading(leading bool, term uint64)
}

// Command is one proposal. Header and bodies belong to the Group until it answers the command.
type Command struct {
	Header []byte
	Bodies [][]byte
	// Deferrable means that nobody waits for the reply: the command may wait up to MaxDeferral for
	// others to share an entry with. It keeps its place in their order.
	Deferrable bool
}

// Errors of proposals. ErrBusy and *NotLeaderError mean that the command is not, and never will be,
// in the log; ErrUnknownOutcome means that it may or may not be applied.
var (
	ErrUnknownOutcome = errors.New("raftfsm: leadership lost while the command was in flight: outcome unknown")
	ErrStopped        = errors.New("raftfsm: group is stopped")
	ErrBusy           = errors.New("raftfsm: too many uncommitted bytes in the group")
)

// TooLargeError refuses a command that does not fit into an entry; it is not in the log.
type TooLargeError struct {
	Group      id.GroupID
	Size, Most int64 // bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("raftfsm: group %s: command of %d bytes is larger than %d bytes: split it", e.Group, e.Size, e.Most)
}

// NotLeaderError refuses a proposal on a member that does not lead.
type NotLeaderError struct {
	Group  id.GroupID
	Leader id.NodeID // "" if unknown
}

func (e *NotLeaderError) Error() string {
	if e.Leader == "" {
		return fmt.Sprintf("raftfsm: group %s has no known leader", e.Group)
	}
	return fmt.Sprintf("raftfsm: group %s is led by node %q", e.Group, e.Leader)
}
