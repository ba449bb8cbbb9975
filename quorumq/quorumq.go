// Package quorumq is one queue's replicated state as a pure function: commands in,
// replies and effects out. It never sees a body: bodies stay in the Raft log, the
// machine keeps sizes and references (BodyRef).
//
// A Queue computes only. It reads no clock (time comes with each command, C-6),
// starts no goroutine and takes no lock; its owner serialises all calls. Every member
// of a group that applies the same entries in the same order holds equal state.
//
// # Parts
//
// The state is made of parts, plain structs that know nothing of one another but what stands above
// them in the list below. None refers to the Queue: it hands them what they need, the configuration
// and the time above all, and acts on what they return. The comment of each part says what holds
// between commands, and its check looks whether it does. In short:
//
//   - store: ready messages, in the order in which they are delivered, and delayed ones; each that
//     expires is found by its time.
//   - backlog: messages on their way to other queues, under numbers that never come twice.
//   - annotations: how many messages share a body of annotations.
//   - nodes, producers, transfers: what was decided about numbered messages, so that a repeat is
//     answered as the original was.
//   - subscriptions: sessions and consumers with what they hold. Whoever may take a message stands
//     in line (waiters), what is held is counted (unacked) and looked at no later than its deadline
//     (ackDeadlines), and one consumer is active where only one is to be (singleActive).
//   - budget, length, idle: how much an entry may still take off, what limits count, since when
//     nobody has used the queue.
//
// The Queue keeps what spans several of them: the commands, the way of a message from one part to
// another, effects, the timer and the snapshot. A message is in one part at a time; whoever takes it
// out of one puts it into the next, or releases its body.
//
// # Reading order
//
// A file uses what stands in it or above it, which TestFilesStandInOrder of internal/archtest looks
// after:
//
//   - words: quorumq.go, rules.go, retry.go, config.go
//   - bytes: wire.go, wire_config.go, snapshot_versions.go, destination.go
//   - commands: command.go, encode.go, decode.go
//   - containers: bitmap.go, column.go, block.go, deque.go, deque_stored.go, heap.go
//   - messages and answers: message.go, reply.go, stats.go
//   - who sends: enqueuer.go, nodes.go, producers.go, transfers.go
//   - who takes: window.go, consumer.go, unacked.go, notices.go, waiters.go, single_active.go,
//     ack_deadlines.go, subscriptions.go, subscriptions_state.go
//   - where messages are: annotations.go, order.go, ready.go, ready_order.go, ready_state.go,
//     delays.go, expiry.go, store.go, backlog.go, backlog_state.go
//   - what bounds them: length.go, budget.go, unit.go, idle.go
//   - the queue: queue.go, discard.go, limits.go, requeue.go, assign.go, expire.go, admit.go,
//     timer.go
//   - what commands do: enqueue.go, transfer.go, settle.go, consume.go, move.go, transact.go,
//     deadletter.go, presence.go, admin.go
//   - what others see: view.go, peek.go, runs.go, snapshot.go, frozen.go, check.go, restore.go,
//     invariants_on.go, invariants_off.go
//   - all together: apply.go
package quorumq

import (
	"cmp"
	"math"

	"github.com/quorate/quorate/id"
)

// Time is a point in time in milliseconds since the Unix epoch, stamped by the leader
// that proposed the command (C-1). Zero means "none".
type Time int64

// Seq numbers the messages of one enqueuer, or the backlog of one queue, from 1.
type Seq uint64

// MsgID numbers the messages assigned to one consumer, ascending by one. It starts at 1,
// or above the numbers that an earlier consumer of the same session had, so that a late
// repeat of an old Settle hits nothing: Reply.LastMsgID tells where.
type MsgID uint64

// Meta is where and when a command stands in the log.
type Meta struct {
	// Index is the Raft index of the entry that holds the command.
	Index uint64
	// FirstSlot is the place of the command's first body among the bodies of the entry.
	FirstSlot uint32
	// Now is the leader's stamp; the queue uses max(own time, Now) (C-6).
	Now Time
}

// BodyRef finds a body: the log entry and the place among the entry's bodies.
type BodyRef struct {
	Index uint64
	Slot  uint32
}

// Reason says why a message left its queue for dead-lettering (DL-1).
type Reason uint8

// The reasons of DL-1.
const (
	ReasonRejected Reason = iota + 1
	ReasonExpired
	ReasonMaxLen
	ReasonDeliveryLimit
	ReasonQueueDeleted
)

// LastReason is the highest of them.
const LastReason = ReasonQueueDeleted

// String returns the word that x-death carries (DL-32).
func (r Reason) String() string {
	switch r {
	case ReasonRejected:
		return "rejected"
	case ReasonExpired:
		return "expired"
	case ReasonMaxLen:
		return "maxlen"
	case ReasonDeliveryLimit:
		return "delivery_limit"
	case ReasonQueueDeleted:
		return "queue_deleted"
	default:
		return "unknown"
	}
}

// EnqueuerKey names a numbered stream of messages into one queue: a node's process,
// or with a Source the dead letters that the source queue hands on (PUB-6).
type EnqueuerKey struct {
	Node  id.NodeID
	Epoch id.Epoch
}

// SessionKey names one gateway's session: a client's stream or channel on one node.
type SessionKey struct {
	Node    id.NodeID
	Epoch   id.Epoch
	Session uint64
}

// ConsumerKey names a consumer of a session. Tag 0 is the session's own consumer for
// Get (DEL-5): messages it holds belong to no subscription.
type ConsumerKey struct {
	SessionKey
	Tag uint32
}

// Unlimited is the value of a limit that is not set.
const Unlimited int64 = -1

// VoidSize marks a void: it takes its number in an Enqueue, stores nothing and is
// answered as refused, so that an earlier copy on its way can never be stored after it
// (PUB-5). It has an empty body.
const VoidSize uint32 = 1<<32 - 1

// SeqRange is a closed range of sequence numbers.
type SeqRange struct{ First, Last Seq }

// MsgIDRange is a closed range of message ids, First ≤ Last.
type MsgIDRange struct{ First, Last MsgID }

// after returns t + ms, at most the end of time.
func after(t Time, ms int64) Time {
	if ms > math.MaxInt64-int64(t) {
		return math.MaxInt64
	}
	return t + Time(ms)
}

func compareRefs(a, b BodyRef) int {
	return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Slot, b.Slot))
}

// compareSessions is the order in which a queue keeps and stores sessions.
func compareSessions(a, b SessionKey) int {
	return cmp.Or(
		cmp.Compare(a.Node, b.Node),
		cmp.Compare(a.Epoch, b.Epoch),
		cmp.Compare(a.Session, b.Session),
	)
}

// levels is the number of priority levels (PR-1); ordBits of an ordinal name the level.
const (
	levels  = 32
	ordBits = 5
)
