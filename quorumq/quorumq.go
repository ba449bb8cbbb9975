// Package quorumq is one queue's replicated state as a pure function: commands in, replies and
// effects out. It never sees a body: bodies stay in the Raft log, and the machine keeps their sizes
// and references (BodyRef).
//
// A Queue only computes. It reads no clock (each command has its time, C-6), starts no goroutine
// and takes no lock; its owner serialises all calls. Every member of a group that applies the same
// entries in the same order holds equal state.
//
// # Parts
//
// The state consists of parts: plain structs that use only the parts above them in the list below.
// None refers to the Queue, which passes them the configuration, the time and other inputs, and
// acts on their results. The comment of each part has its invariants, and its check method verifies
// them. In short:
//
//   - store: ready messages in delivery order, and delayed messages; those that expire are found by
//     their time.
//   - backlog: messages on the way to other queues, with numbers that are never reused.
//   - annotations: how many messages share a body of annotations.
//   - nodes, producers, transfers: the decisions about numbered messages, so that a repeat gets the
//     same answer as the original.
//   - subscriptions: sessions and consumers with their unacked messages. Consumers that can take a
//     message wait in line (waiters), unacked messages are counted (unacked) and checked at their
//     deadlines (ackDeadlines), and a queue may have a single active consumer (singleActive).
//   - budget, length, idle: how many messages an entry may still remove, what limits count, and
//     when the queue was last used.
//
// The Queue itself has everything that spans several parts: the commands, the path of a message
// from one part to another, effects, the timer and the snapshot. A message is in one part at a
// time; code that takes it out of one part puts it into the next, or releases its body.
//
// # Reading order
//
// A file uses only declarations in itself or in files above it, which TestFilesStandInOrder of
// internal/archtest checks:
//
//   - words: quorumq.go, rules.go, retry.go, config.go
//   - bytes: wire.go, wire_config.go, snapshot_versions.go, destination.go
//   - commands: past.go, command.go, encode.go, decode.go
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
//   - what others see: view.go, peek.go, saved.go, runs.go, snapshot.go, frozen.go, check.go, restore.go, contents.go,
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

// MsgID numbers the messages assigned to one consumer, ascending by one. It starts at 1, or above
// the numbers of an earlier consumer of the same session, so that a late repeat of an old Settle
// matches nothing; Reply.LastMsgID is the last number used.
type MsgID uint64

// Meta is a command's position and time in the log.
type Meta struct {
	// Index is the Raft index of the command's entry.
	Index uint64
	// FirstSlot is the place of the command's first body among the bodies of the entry.
	FirstSlot uint32
	// Now is the leader's stamp; the queue's time becomes the maximum of Now and its previous time
	// (C-6).
	Now Time
}

// BodyRef finds a body: the log entry and the place among the entry's bodies.
type BodyRef struct {
	Index uint64
	Slot  uint32
}

// Reason is why a message was discarded for dead-lettering (DL-1).
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

// String returns the word used in x-death (DL-32).
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

// EnqueuerKey identifies a numbered stream of messages into one queue: that of a node's process
// (PUB-6).
type EnqueuerKey struct {
	Node  id.NodeID
	Epoch id.Epoch
}

// SessionKey identifies a gateway's session: a client's stream or channel on one node.
type SessionKey struct {
	Node    id.NodeID
	Epoch   id.Epoch
	Session uint64
}

// ConsumerKey identifies a consumer of a session. Tag 0 is the session's own consumer for Get
// (DEL-5): its messages belong to no subscription.
type ConsumerKey struct {
	SessionKey
	Tag uint32
}

// Unlimited is the value of a limit that is not set.
const Unlimited int64 = -1

// VoidSize marks a void: it uses its number in an Enqueue, stores nothing and is answered as
// refused, so that an earlier copy in flight can never be stored after it (PUB-5). It has an empty
// body.
const VoidSize uint32 = 1<<32 - 1

// SeqRange is a closed range of sequence numbers.
type SeqRange struct{ First, Last Seq }

// MsgIDRange is a closed range of message ids, First ≤ Last.
type MsgIDRange struct{ First, Last MsgID }

// after returns t + ms, but at most the largest time.
func after(t Time, ms int64) Time {
	if ms > math.MaxInt64-int64(t) {
		return math.MaxInt64
	}
	return t + Time(ms)
}

func compareRefs(a, b BodyRef) int {
	return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Slot, b.Slot))
}

// compareSessions defines the order in which a queue keeps and stores sessions.
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
