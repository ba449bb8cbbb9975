package deadletter

import (
	"context"
	"errors"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// Source is a queue with dead letters, in one term of its leadership on this node; after
// the term its methods fail. They may be called concurrently.
type Source interface {
	UID() id.QueueUID
	// Backlog appends up to limit discarded messages with numbers above after, in order,
	// and returns the number up to which all are settled or purged.
	Backlog(dst []quorumq.Discarded, after quorumq.Seq, limit int) ([]quorumq.Discarded, quorumq.Seq, error)
	// Body returns a message, or annotations, in stored form; it must not be changed.
	Body(ref quorumq.BodyRef) ([]byte, error)
	// SettleBacklog removes messages from the backlog. After an error it may be repeated.
	SettleBacklog(ctx context.Context, ranges []quorumq.SeqRange) error
}

// Rule is what is in force for the dead letters of a queue (DL-2).
type Rule struct {
	Enabled       bool // it has a dead-letter exchange
	Exchange      string
	RoutingKey    string // valid when HasRoutingKey
	HasRoutingKey bool
	AllowCycles   bool   // dead letters may go round (DL-43)
	MaxHops       uint64 // deaths after which a message goes nowhere (DL-43); 0: no limit
}

// Router reports where dead letters go. Its methods may be called concurrently and do not
// block.
type Router interface {
	// Serves reports whether the view was confirmed in this life of the node (EX-16): one that
	// comes from the disk may lack bindings that were made while the node was away.
	Serves() bool
	// ServesChanged returns a channel that is closed when Serves changes; ask for it before.
	ServesChanged() <-chan struct{}
	// View returns the catalog as this node knows it.
	View() *catalog.View
	// Changed returns a channel that is closed at the next change of the view.
	Changed() <-chan struct{}
	// Rule returns what is in force for the queue.
	Rule(q *catalog.QueueRecord) Rule
	// AlternateExchange returns that of an exchange (EX-12).
	AlternateExchange(v *catalog.View, x *catalog.Exchange) (name string, ok bool)
}

// Sender carries dead letters to their targets. Its methods may be called concurrently.
type Sender interface {
	// Transfer hands dead letters over and waits for the answer of the target's machine. A
	// repeat is harmless whatever became of the first (DL-25). ErrNoTarget reports that the
	// target is gone for good, ErrDoubtful that it may have stored them, or will; after any other
	// error it has not and will not. When ctx ends, dead letters that were not sent are not sent any
	// more.
	Transfer(ctx context.Context, target id.QueueUID, t *quorumq.Transfer, bodies [][]byte) (quorumq.Reply, error)
	// Enqueue hands over a copy. It waits for room until ctx ends. Unless it fails, done
	// is called once with nil, ErrRefused, ErrNoTarget or another error; calls of one
	// goroutine reach the target in order.
	Enqueue(ctx context.Context, target id.QueueUID, m quorumq.NewMessage, body []byte, done func(error)) error
}

// Errors of a Sender that are decided on.
var (
	ErrNoTarget = errors.New("deadletter: the target does not exist any more")
	ErrRefused  = errors.New("deadletter: refused by the target's length limit")
	ErrDoubtful = errors.New("deadletter: nobody knows whether the target has the letters")
)

// Cause says why a dead letter waits, or was lost.
type Cause uint8

// The causes, as in the failure matrix (DL-26).
const (
	CauseNone        Cause = iota
	CauseDisabled          // the source has no dead-letter exchange any more
	CauseNoExchange        // the dead-letter exchange does not exist
	CauseUnroutable        // it routes to no queue
	CauseCycle             // all targets would make the message go round (DL-40)
	CauseFull              // the target's length limit refused it
	CauseUnavailable       // the target has no leader, or did not answer
	CauseTargetGone        // the target was deleted on the way
	CauseUnreadable        // the stored message could not be read
	CauseNoQueue           // the queue that it is moved to does not exist
	CauseOverflow          // more copies than MaxCopies waited
	CauseMaxHops           // the message has died more often than the source allows (DL-43)

	causes
)

// Causes counts something for each Cause.
type Causes [causes]uint64

// Add adds other counts.
func (c *Causes) Add(other *Causes) {
	for i, n := range other {
		c[i] += n
	}
}

// Sum returns the count of all causes.
func (c *Causes) Sum() (sum uint64) {
	for _, n := range c {
		sum += n
	}
	return sum
}

// ByWord returns the counts that are not 0, by the causes' words.
func (c *Causes) ByWord() map[string]uint64 {
	out := make(map[string]uint64)
	for i, n := range c {
		if n > 0 {
			out[Cause(i).String()] = n
		}
	}
	return out
}

// String returns the word used in logs and metrics.
func (c Cause) String() string {
	words := [causes]string{
		"none", "disabled", "no_exchange", "unroutable", "cycle", "full", "unavailable", "target_gone", "unreadable", "no_queue",
		"overflow", "max_hops",
	}
	if c >= causes {
		return "unknown"
	}
	return words[c] //nolint:gosec // below causes
}
