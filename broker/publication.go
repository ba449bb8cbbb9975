package broker

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/message"
)

// Publish is a message to be published. Nothing of it is kept after Broker.Publish has
// returned, except what strings and tables share.
type Publish struct {
	VHost, Exchange string
	RoutingKey      string
	Properties      message.Properties
	Headers         message.Table
	Body            []byte
	Mandatory       bool
	// Producer and ProducerSeq, from 1 and ascending, name the message for queues to
	// recognise a repeat; nil: repeats are not recognised. The id must never change.
	Producer    *ProducerID
	ProducerSeq uint64
	// Delay is when it is to be ready in its queues (DLY-1).
	Delay Delay
	// Chance decides where an exchange takes any of its bindings (EX-14); 0: Publish draws it.
	Chance uint64
	// Token comes back in the Result.
	Token uint64
	// Unit, if not nil, keeps the message until Unit.Commit.
	Unit *Unit
	// Sender is the publisher; nil, a publisher without a name, is enough where clients do not log in.
	Sender *Sender
}

// ProducerID is what a publisher calls itself, the same on all nodes: 16 random bytes.
type ProducerID [16]byte

// ResultKind is the outcome of a publish as a whole.
type ResultKind uint8

// The kinds of result.
const (
	// Confirmed: every queue routed to has it, or none was and Mandatory was not set.
	Confirmed ResultKind = iota + 1
	// Rejected: at least one queue did not take it (PUB-4).
	Rejected
	// Returned: mandatory, and no queue is routed to (PUB-3).
	Returned
	// Invalid: the message is at fault, see Err; nothing was stored.
	Invalid
)

// Result is the outcome of one publish.
type Result struct {
	Token      uint64
	Kind       ResultKind
	Queues     int         // how many took it
	Rejections []Rejection // with Rejected
	Err        error       // with Invalid: an *Error
}

// RejectionCause is why a queue did not take a message.
type RejectionCause uint8

// The causes.
const (
	// CauseMaxLen: a length limit refused it (LEN-4).
	CauseMaxLen RejectionCause = iota + 1
	// CauseUnavailable: the queue had no leader in time; it will not be stored (PUB-5).
	CauseUnavailable
	// CauseUnknown: the outcome is not known.
	CauseUnknown
	// CauseNoSpace: too few of the queue's nodes have room; it will not be stored.
	CauseNoSpace
)

// Rejection names a queue that did not take a message; none, if this node does not know which
// queues there are.
type Rejection struct {
	Queue  string
	Cause  RejectionCause
	Reason string // with CauseNoSpace: which nodes are short of what, and what helps; without Queue: why this node does not know
}

// chance decides where an exchange takes any of its bindings (EX-14). A producer's repeat
// has the chance of the first try, so that it goes to the same queue, which knows it.
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

// aboutMessage is what errors about a message are about.
func aboutMessage(m *Publish) failure.Error { return failure.Error{Kind: "message", VHost: m.VHost} }
