package broker

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/message"
)

// Publish is a message to be published. Broker.Publish keeps nothing of it after it returns, except
// what strings and tables refer to.
type Publish struct {
	// Message has the properties, the headers, the exchange and the body. The rest of what is stored the broker adds,
	// and takes off again before Broker.Publish returns.
	message.Message
	VHost      string
	RoutingKey string
	Mandatory  bool
	// Producer and ProducerSeq identify the message, so that queues recognise it if it is published
	// again. ProducerSeq ascends from 1. nil: queues recognise no repeats. The id that Producer
	// points to must never change.
	Producer    *ProducerID
	ProducerSeq uint64
	// Delay says when the message becomes ready in its queues (DLY-1).
	Delay Delay
	// Chance decides which binding the message takes at an exchange that takes any one of them
	// (EX-14); 0: Publish draws it.
	Chance uint64
	// Token comes back in the Result.
	Token uint64
	// Unit, if not nil, holds the message back until Unit.Commit.
	Unit *Unit
	// Sender is the publisher. Where clients do not log in it may be nil, for a publisher without a
	// name.
	Sender *Sender
}

// ProducerID is the name that a publisher gives itself, the same on all nodes: 16 random bytes.
type ProducerID [16]byte

// ResultKind is the outcome of a publish as a whole.
type ResultKind uint8

// The kinds of result.
const (
	// Confirmed: all queues that the message was routed to have stored it, or it was routed to none and Mandatory was
	// not set.
	Confirmed ResultKind = iota + 1
	// Rejected: at least one queue did not take it (PUB-4).
	Rejected
	// Returned: the message is mandatory and was routed to no queue (PUB-3).
	Returned
	// Invalid: the message is at fault, and Err has the reason; nothing was stored.
	Invalid
)

// Result is the outcome of one publish.
type Result struct {
	Token      uint64
	Kind       ResultKind
	Queues     int         // how many have stored it
	Rejections []Rejection // with Rejected
	// NotTaken, with Rejected: a queue's window did not take the message of a producer, or this node could not route it,
	// and its number is not used up. Publish has called done before it returned. The caller publishes nothing later of
	// the producer before it has published this message again: a queue takes all numbers below the newest one that it
	// has seen for decided, and would confirm the message without storing it (PUB-6).
	NotTaken bool
	Err      error // with Invalid: a *failure.Error
}

// RejectionCause is why a queue did not take a message.
type RejectionCause uint8

// The causes.
const (
	// CauseMaxLen: a length limit of the queue refused the message (LEN-4).
	CauseMaxLen RejectionCause = iota + 1
	// CauseUnavailable: the queue had no leader in time (PUB-5), or its deletion is decided. It will not
	// store the message.
	CauseUnavailable
	// CauseUnknown: the outcome is unknown; the queue may have stored the message.
	CauseUnknown
	// CauseNoSpace: too few of the queue's nodes have room on disk. The queue will not store the
	// message.
	CauseNoSpace
)

// Rejection names a queue that did not take a message. Queue is empty if this node could not find
// out which queues the message is for.
type Rejection struct {
	Queue  string
	Cause  RejectionCause
	Reason string // with CauseNoSpace: which nodes lack what, and the remedy; without Queue: why this node does not know the queues
}

// chance returns the number that decides which binding a message takes at an exchange that takes
// any one of them (EX-14). A producer's repeat gets the same number as the first try. So it goes to
// the same queue, which recognises it.
func (m *Publish) chance() uint64 {
	switch {
	case m.Chance != 0:
		return m.Chance
	case m.Producer == nil:
		return rand.Uint64() //nolint:gosec // spreads messages and hides nothing
	}
	const odd = 0x9e3779b97f4a7c15 // spreads consecutive numbers over all bits
	h := binary.LittleEndian.Uint64(m.Producer[:8]) ^ m.ProducerSeq*odd
	h = (h ^ h>>32) * odd
	return h ^ h>>29
}

// aboutMessage returns an error that only says that a message is at fault; callers add what is
// wrong.
func aboutMessage(m *Publish) failure.Error { return failure.Error{Kind: "message", VHost: m.VHost} }
