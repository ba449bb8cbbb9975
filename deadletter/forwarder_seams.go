package deadletter

import (
	"context"
	"errors"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// Source is a queue with dead letters, in one term of its leadership on this node; after
// the term its methods fail. They may be called concurrently.
type Source interface {
	UID() id.QueueUID
	// Backlog appends up to limit discarded messages with numbers above after, in order, and
	// returns the number up to which all messages are settled or purged.
	Backlog(dst []quorumq.Discarded, after quorumq.Seq, limit int) ([]quorumq.Discarded, quorumq.Seq, error)
	// Body returns a message, or annotations, in stored form; it must not be changed.
	Body(ref quorumq.BodyRef) ([]byte, error)
	// SettleBacklog removes messages from the backlog. After an error it may be repeated.
	SettleBacklog(ctx context.Context, ranges []quorumq.SeqRange) error
}

// Rule has the settings in force for the dead letters of a queue (DL-2).
type Rule struct {
	Enabled       bool // it has a dead-letter exchange
	Exchange      string
	RoutingKey    string // valid when HasRoutingKey
	HasRoutingKey bool
	AllowCycles   bool   // dead letters may travel in cycles (DL-43)
	MaxHops       uint64 // deaths after which a message is not forwarded (DL-43); 0: no limit
}

// MaxViewAge is how old a node's view of the catalog may be for a Forwarder to rely on it. Targets forget a source
// twice that long after its deletion (DL-25). So a Transfer of a node that does not know of the deletion yet, as one
// whose machine was suspended, has half of the time to arrive.
const MaxViewAge = 5 * time.Minute

// Router routes dead letters. Its methods may be called concurrently and do not block.
type Router interface {
	// Serves reports whether the view was confirmed since the node started (EX-16): a view from the
	// disk may lack bindings that were created while the node was down.
	Serves() bool
	// ServesChanged returns a channel that is closed when Serves changes. Get it before you call
	// Serves.
	ServesChanged() <-chan struct{}
	// Current reports whether the view shows all that the catalog had committed at a moment at most
	// MaxViewAge ago.
	Current() bool
	// View returns this node's view of the catalog.
	View() *catalog.View
	// Changed returns a channel that is closed at the next change of the view.
	Changed() <-chan struct{}
	// Rule returns the dead-letter settings that the view has in force for the queue.
	Rule(v *catalog.View, q *catalog.QueueRecord) Rule
	// AlternateExchange returns the alternate exchange of an exchange (EX-12).
	AlternateExchange(v *catalog.View, x *catalog.Exchange) (name string, ok bool)
}

// Sender sends dead letters to their targets. Its methods may be called concurrently.
type Sender interface {
	// Transfer sends dead letters and waits for the answer of the target's machine. Repeating it is
	// always harmless (DL-25). ErrNoTarget means that the target is gone for good, ErrDoubtful that
	// it may have stored them or may still do so; after any other error it has not and will not.
	// Dead letters that were not sent when ctx ends are no longer sent.
	Transfer(ctx context.Context, target id.QueueUID, t *quorumq.Transfer, bodies [][]byte) (quorumq.Reply, error)
	// Enqueue sends a copy. It waits for room until ctx ends. Unless it returns an error, done is
	// called once with nil, ErrRefused, ErrNoTarget or another error. Calls of one goroutine reach
	// the target in order.
	Enqueue(ctx context.Context, target id.QueueUID, m quorumq.NewMessage, body []byte, done func(error)) error
}

// Errors of a Sender that the Forwarder acts on.
var (
	ErrNoTarget = errors.New("deadletter: the target does not exist any more")
	ErrRefused  = errors.New("deadletter: refused by the target's length limit")
	ErrDoubtful = errors.New("deadletter: nobody knows whether the target has the dead letters")
)

// Cause is the reason why a dead letter waits or was lost.
type Cause uint8

// The causes, as in the failure matrix (DL-26).
const (
	CauseNone        Cause = iota
	CauseDisabled          // the source has no dead-letter exchange any more
	CauseNoExchange        // the dead-letter exchange does not exist
	CauseUnroutable        // it routes to no queue
	CauseCycle             // all targets would close a cycle (DL-40)
	CauseFull              // the target's length limit refused it
	CauseUnavailable       // the target has no leader, or did not answer
	CauseTargetGone        // the target was deleted meanwhile
	CauseUnreadable        // the stored message could not be read
	CauseNoQueue           // the destination of a moved message does not exist
	CauseOverflow          // more copies than MaxCopies waited
	CauseMaxHops           // the message has died more often than the source allows (DL-43)
	CauseRanges            // the target remembers as many ranges of the source's numbers as it may (DL-25)

	causes
)

// Causes has a count for each Cause.
type Causes [causes]uint64

// Add adds the counts of other.
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

// ByWord returns the counts that are not 0, by the names of their causes.
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
		"overflow", "max_hops", "ranges",
	}
	if c >= causes {
		return "unknown"
	}
	return words[c] //nolint:gosec // below causes
}
