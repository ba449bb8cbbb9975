package cluster

import (
	"context"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// Queue is this node's end of one queue, as gateway for its clients. What it is given is
// sent in order, and again after a change of leader, until it is answered (PUB-6).
// All methods may be called concurrently.
type Queue struct{}

// UID returns the queue's UID.
func (q *Queue) UID() id.QueueUID { return 0 }

// Enqueue hands over a message. It waits while the window is full, until ctx ends. If it
// returns nil, done is called once, from any goroutine, and must not block: with nil, or
// an error that wraps ErrRefused, ErrUnavailable (it is not, and will not be, stored),
// ErrUnknownOutcome, ErrNoSuchQueue or ErrClosed. The body must not change until then.
func (q *Queue) Enqueue(ctx context.Context, m quorumq.NewMessage, body []byte, done func(error)) error {
	return errNotYet
}

// Transfer hands over dead letters once; an unknown outcome is the caller's to repeat,
// which is safe (DL-25).
func (q *Queue) Transfer(ctx context.Context, t *quorumq.Transfer, bodies [][]byte) (quorumq.Reply, error) {
	return quorumq.Reply{}, errNotYet
}

// Purge removes ready messages and the backlog, and returns how many.
func (q *Queue) Purge(ctx context.Context) (uint64, error) { return 0, errNotYet }

// Consume registers a consumer with the queue's leader.
func (q *Queue) Consume(ctx context.Context, c ConsumerConfig) (*Consumer, error) {
	return nil, errNotYet
}

// Get takes one message, nil if none is ready, and tells how many are left. Unless
// autoAck, the token settles it, on any node, within GetLease; then it returns to the queue.
func (q *Queue) Get(ctx context.Context, autoAck bool) (d *Delivery, t ConsumerToken, ready uint64, err error) {
	return nil, t, 0, errNotYet
}

// DecideToken decides about a message that Get took on whatever node.
func (c *Cluster) DecideToken(ctx context.Context, t ConsumerToken, d Decision) error {
	return errNotYet
}

// Delivery is a message handed to a consumer of this node's clients.
type Delivery struct {
	MsgID         quorumq.MsgID
	DeliveryCount uint32
	AcquiredCount uint32
	Message       []byte // stored form
	Annotations   []byte // stored form; nil if none
}

// ConsumerConfig says how to consume; see quorumq.Checkout.
type ConsumerConfig struct {
	Prefetch  uint32
	Credit    bool
	Limit     quorumq.MsgID
	AutoAck   bool
	Priority  int32
	Exclusive bool
	// Deliver takes new deliveries in order, each once. It must not block and owns the slice.
	Deliver func([]Delivery)
	// Ended tells, once and last, that the consumer is gone without Close: the queue was
	// deleted (ErrNoSuchQueue), or cancelled (ErrConsumerGone).
	Ended func(error)
}

// ConsumerToken names a consumer's hold on a message from any node (AM-8).
type ConsumerToken struct {
	Queue    id.QueueUID
	Consumer quorumq.ConsumerKey
	MsgID    quorumq.MsgID
}

// DecisionKind is what a client decided about messages (DEL-8).
type DecisionKind uint8

// The decisions.
const (
	Ack DecisionKind = iota + 1
	Return
	Discard
)

// Decision decides about messages.
type Decision struct {
	Kind   DecisionKind
	Failed bool // counts as a failed delivery; not for Ack
	// Annotations is the stored form of a table to be merged into the message; nil: none.
	Annotations []byte
}

// Consumer is a consumer of this node's client. All methods may be called concurrently.
type Consumer struct{}

// Decide takes the client's decision about the delivered messages r and returns how many
// of them were undecided. It is sent, again if need be, in the order of calls.
func (c *Consumer) Decide(r quorumq.MsgIDRange, d Decision) int { return 0 }

// Flush waits until every decision made so far is committed.
func (c *Consumer) Flush(ctx context.Context) error { return errNotYet }

// Credit allows messages up to the id limit, with ConsumerConfig.Credit.
func (c *Consumer) Credit(limit quorumq.MsgID) {}

// Cancel ends delivery; what is unsettled stays, or with requeue returns, not failed.
func (c *Consumer) Cancel(ctx context.Context, requeue bool) error { return errNotYet }

// Close ends the consumer's session: what is unsettled returns as a failed delivery. It
// does not wait.
func (c *Consumer) Close() {}
