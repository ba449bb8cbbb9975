// Package raftfsm runs one pure machine as one Raft group of hashicorp/raft: it batches
// proposals into log entries, applies them in order, answers the proposers, hands
// effects to the member that leads, takes snapshots and restores them, and reads bodies
// back from the log.
//
// It knows nothing of queues: commands are a header, which the machine reads, and
// bodies, which stay in the log and are found by reference.
package raftfsm

import (
	"errors"
	"fmt"
	"iter"

	"github.com/quorate/quorate/id"
)

// Meta is where and when a command stands in the log.
type Meta struct {
	Index     uint64 // Raft index of the entry
	FirstSlot uint32 // place of the command's first body among the entry's bodies
	NowMs     int64  // stamp of the proposing leader, milliseconds since the Unix epoch
	More      bool   // other commands of the same entry, and so of the same index, follow
}

// BodyRef finds a body: the log entry and the place among the entry's bodies.
type BodyRef struct {
	Index uint64
	Slot  uint32
}

// BodyRun names the bodies at Slots places from Slot on, in each of Entries entries from
// Index on, which are Stride apart; Stride is 1 or more if there are several.
type BodyRun struct {
	Index, Entries, Stride uint64
	Slot, Slots            uint32
}

// Machine is a deterministic state machine with replies R and effects E. The Group
// serialises all calls, so that a Machine needs no lock.
type Machine[R, E any] interface {
	// Apply carries out one command. The header is valid during the call only; bodies is
	// how many bodies the entry holds for the command. The reply must stay valid for good,
	// the effects until the next call. Input must never make it panic. An error, best
	// ErrUnreadable, says that the command cannot be carried out as the other members do: it
	// stops this one before anything later is applied.
	Apply(m Meta, header []byte, bodies int) (R, E, error)
	// Lead returns the header of the command by which a new leader takes over, or nil if
	// the machine has no effects to be acted on.
	Lead(node id.NodeID, term uint64) []byte
	// Now returns the latest stamp of a command, milliseconds since the Unix epoch; 0: it has
	// had none.
	Now() int64
	// Freeze returns the state of this moment. No command is applied meanwhile, so it must
	// take no longer than it takes to copy pointers.
	Freeze() Frozen
	// HeldBytes returns how many bytes of bodies the state refers to, without looking at it
	// all.
	HeldBytes() uint64
	// Restore replaces the state. After an error the machine is not used any more; it is
	// ErrUnreadable if another build can read the bytes.
	Restore(b []byte) error
}

// Frozen is a machine's state of one moment. It is used on one goroutine, while the
// machine goes on to apply commands on another.
type Frozen interface {
	// Live yields the bodies that the state refers to, each once, ascending by index and
	// within an entry by slot. A run of several entries ends before the next begins.
	Live() iter.Seq[BodyRun]
	// AppendSnapshot appends the state; equal states give equal bytes.
	AppendSnapshot(b []byte) []byte
}

// Effector acts on the effects of a machine on the node that leads.
type Effector[E any] interface {
	// Act takes the effects of the entry at index; they are valid during the call only.
	// It is called on the apply path, only between the apply of this node's own Lead
	// command and the loss of leadership, in log order, and must not block.
	Act(index uint64, e E)
	// Leading reports that this member began or ceased to lead by its Lead command. On
	// true it is called before the Act of the Lead command's own effects. It must not block.
	Leading(leading bool, term uint64)
}

// Command is one proposal. Header and bodies belong to the Group until it is answered.
type Command struct {
	Header []byte
	Bodies [][]byte
	// Deferrable says that nobody waits for the reply: the command may wait up to MaxDeferral for
	// others to share an entry with. It keeps its place among them.
	Deferrable bool
}

// Errors of proposals. ErrNotLeader and ErrBusy mean that the command is not, and never
// will be, in the log; ErrUnknownOutcome means that it may or may not come to be.
var (
	ErrUnknownOutcome = errors.New("raftfsm: leadership lost while the command was in flight: outcome unknown")
	ErrStopped        = errors.New("raftfsm: group is stopped")
	ErrBusy           = errors.New("raftfsm: too many uncommitted bytes in the group")
)

// TooLargeError refuses a command that no entry can hold; it is not in the log.
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
