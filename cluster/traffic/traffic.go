// Package traffic is what gateways and the hosts of queues' members say to one another, on one
// node or between two: deliveries with what they deliver, and the errors of commands.
package traffic

import (
	"errors"

	"github.com/quorate/quorate/quorumq"
)

// Delivery is a delivery with what it delivers.
type Delivery struct {
	quorumq.Delivery
	Message, Annotations []byte // stored forms
}

// Size is what it counts in a client's buffer, in bytes.
func (d *Delivery) Size() int64 { return int64(len(d.Message) + len(d.Annotations)) }

// Holding is what a consumer holds above an id, with bodies, and its newest id; if it is cut, the
// newest of the deliveries, for then there is more.
type Holding struct {
	Deliveries []Delivery
	Last       quorumq.MsgID
	Cut        bool
}

// NoRoomLimit is the room of a consumer whose gateway takes all that it holds.
const NoRoomLimit = -1

// ConsumerTag is the tag of a session's only subscription.
const ConsumerTag = 1

// Errors of commands that callers decide on. Each is wrapped with the queue and what to do.
var (
	// ErrNotExported: there is a leader, but no member can copy the queue now.
	ErrNotExported = errors.New("cluster: no member can copy the queue now")
	// ErrUnavailable: no leader in time; the command has not, and will not, take effect.
	ErrUnavailable = errors.New("cluster: queue has no leader that can be reached")
	// ErrNotLed: the queue is declared and stays so, but had no leader in time (RE-1).
	ErrNotLed = errors.New("cluster: the queue is declared but has no leader yet")
	// ErrUnknownOutcome: the command may or may not have taken effect.
	ErrUnknownOutcome = errors.New("cluster: outcome unknown")
	// ErrNoSuchQueue: the queue is not, or no longer, in the catalog.
	ErrNoSuchQueue = errors.New("cluster: no such queue")
	// ErrDrainDeleting: the queue is being deleted and dead-letters its messages first, or is
	// sealed.
	ErrDrainDeleting = errors.New("cluster: queue is being deleted")
	// ErrRefused: the queue refused the message, by a length limit (LEN-4), or with ErrDrainDeleting
	// because it is empty and goes.
	ErrRefused = errors.New("cluster: refused by the queue")
	// ErrExclusive: another consumer has or bars exclusive access (CO-2).
	ErrExclusive = errors.New("cluster: exclusive access")
	// ErrSingleActive: Get of a queue with a single active consumer (DEL-5).
	ErrSingleActive = errors.New("cluster: queue has a single active consumer")
	// ErrTooManyMoves: messages of the queue are on their way to too many destinations.
	ErrTooManyMoves = errors.New("cluster: messages are moved to too many destinations at once")
	// ErrConsumerGone: the consumer was cancelled or closed.
	ErrConsumerGone = errors.New("cluster: consumer is gone")
	// ErrUndelivered: the consumer was cancelled, and closed because no leader sent what it had been assigned.
	ErrUndelivered = errors.New("cluster: what a cancelled consumer was assigned was not delivered")
	// ErrNotHeld: the consumer does not hold the message; it is settled, or back in the queue.
	ErrNotHeld = errors.New("cluster: message is not held")
	// ErrClosed: this node is stopping.
	ErrClosed = errors.New("cluster: node is stopping")
)
