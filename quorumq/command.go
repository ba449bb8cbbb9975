package quorumq

import "github.com/quorate/quorate/id"

// Command is one of the structs of this file, each by pointer.
type Command interface{ kind() kind }

// kind is the second byte of a stored command.
type kind uint8

// The kinds are stored; numbers are never reused.
const (
	kindEnqueue kind = iota + 1
	kindTransfer
	kindCheckout
	kindCancel
	kindCredit
	kindSettle
	kindRequeue
	kindDiscard
	kindGet
	kindExpire
	kindPurge
	kindConfigure
	kindBacklogSettle
	kindSessionClosed
	kindNodeDown
	kindNodeUp
	kindLead
	kindRenew
	kindExtend
	kindMove
	kindRetryDelayed
	kindTransact
	kindDrainDelete
)

// NewMessage is what the machine must know of a message to be enqueued; the body is
// at the place that Meta and the position in the command give.
type NewMessage struct {
	// Size is the bytes of body (D-5), or VoidSize.
	Size uint32
	// TTLMs is the message's own TTL in milliseconds (TTL-1); Unlimited: none.
	TTLMs int64
	// Priority is 0 to 31; values above count as 31 (PR-1). DefaultPriority if unset.
	Priority uint8
	// Delay says when it is to be ready; it is committed and counts at once, its TTL begins when
	// it is ready (DLY-1). For an Enqueue only.
	Delay
	// Producer, if not nil, and ProducerSeq, from 1 and ascending, name the message among
	// those of its publisher: under a number that the queue has decided about before, it
	// answers as then and stores nothing. For an Enqueue only; the id must not change.
	Producer    *ProducerID
	ProducerSeq uint64
	// Joined puts the next message into the same unit as this one: all messages of a unit are
	// stored, or all are refused (PUB-9). For an Enqueue only; a unit ends in its command and
	// has no producers.
	Joined bool
}

// DefaultPriority is the level of a message without priority (PR-1).
const DefaultPriority uint8 = 4

// Enqueue appends a batch of one enqueuer's messages; Messages[i] has the sequence
// number First+i and the body FirstSlot+i (PUB-6).
type Enqueue struct {
	Enqueuer EnqueuerKey
	First    Seq
	// Answered is the highest number up to which the enqueuer has its answers, below any
	// that it will send again: what the queue remembers of refusals up to there can go.
	Answered Seq
	Messages []NewMessage
}

// Transfer hands dead letters of the queue Source to this queue (DL-25). Repeats are
// answered, never enqueued twice.
type Transfer struct {
	Source id.QueueUID
	// Settled is the source's watermark: it never again sends a number ≤ Settled.
	Settled Seq
	Letters []Letter
}

// Letter is one dead letter; Seq is its number in the source's backlog. Letters[i] has
// the body FirstSlot+i.
type Letter struct {
	Seq Seq
	NewMessage
}

// Checkout registers a consumer, or changes one of the same key (CO-3).
type Checkout struct {
	Consumer ConsumerKey
	// Prefetch bounds the unsettled messages; 0 is MaxOutstanding (DEL-3).
	Prefetch uint32
	// Credit switches to explicit credit: messages up to MsgID Limit may be assigned.
	Credit bool
	Limit  MsgID
	// AutoAck settles at assignment (DEL-4).
	AutoAck   bool
	Priority  int32 // higher first (DEL-2)
	Exclusive bool  // CO-2
	// TimeoutMs, from 0, is the consumer's own timeout if HasTimeout (CT-1); 0: none.
	HasTimeout bool
	TimeoutMs  int64
}

// MaxOutstanding bounds the unsettled messages of one consumer (DEL-3).
const MaxOutstanding = 2000

// Cancel ends a subscription: nothing new is assigned. Unsettled messages stay with
// the session (CO-3) unless Requeue is set: then they return, not failed.
type Cancel struct {
	Consumer ConsumerKey
	Requeue  bool
}

// Credit raises a consumer's limit: messages up to MsgID Limit may be assigned. It is
// absolute, so that a repeat or an old one does nothing.
type Credit struct {
	Consumer ConsumerKey
	Limit    MsgID
}

// Settle takes messages off the queue (DEL-8 accept). Unknown ids are ignored, so that
// a repeat does nothing (DEL-6).
type Settle struct {
	Consumer ConsumerKey
	Ranges   []MsgIDRange
}

// Requeue gives messages back (DEL-8 release, fail) in delivery order (DEL-1). If
// HasAnnotations the command has one body, merged into each message when it is read
// (DEL-11). It replaces what a message had from an earlier return: whoever returns an
// annotated message merges the two.
//
// Delay says when they are to be ready, before what Config.Retry says (DR-4).
type Requeue struct {
	Consumer       ConsumerKey
	Ranges         []MsgIDRange
	Failed         bool
	HasAnnotations bool
	Delay
}

// Discard dead-letters messages with reason rejected, in the order given (DL-11).
type Discard struct {
	Consumer       ConsumerKey
	Ranges         []MsgIDRange
	Failed         bool
	HasAnnotations bool
}

// Get assigns one message to the session's consumer with Tag 0 (DEL-5).
type Get struct {
	Session SessionKey
	AutoAck bool
}

// Expire handles what is due: messages (TTL-6), those delayed (DR-3) and disconnected consumers (DC-1), at
// most ExpireSlice messages; Effects.Timer tells when to come again (TTL-7).
type Expire struct{}

const (
	// ExpireSlice bounds the due messages that all commands of one log entry handle together
	// (TTL-7): whoever waits for a command waits no longer than that takes.
	ExpireSlice = 1024
	// ExpireChunk is that bound for each command by RulesFirst, and the bound of an entry with a
	// Get, which expires what stands before the message that it is to find.
	ExpireChunk = 4096
)

// Purge removes ready and delayed messages and the backlog.
type Purge struct{}

// Configure puts a configuration in force.
type Configure struct{ Config Config }

// BacklogSettle removes forwarded messages from the backlog (DL-21).
type BacklogSettle struct{ Ranges []SeqRange }

// SessionClosed ends a session for good: its consumers go, their messages return as failed
// deliveries or reach the delivery limit (DEL-8). A Checkout or Get of it that comes later
// is answered with CodeUnknownConsumer; session numbers are not used again.
type SessionClosed struct {
	Session SessionKey
	// Unsent returns, not failed: for leaders of queues that go by RulesThird.
	Unsent Unsent
}

// Unsent are deliveries to the consumer Tag of a session that never left the leader's node: they
// are no failures of the consumer (DEL-8). What it does not hold is ignored.
type Unsent struct {
	Tag    uint32
	Ranges []MsgIDRange
}

// NodeDown suspects the node's consumers: nothing is assigned to them; after
// Config.DisconnectedTimeoutMs their sessions end and their messages return, not failed
// (DC-1). Sessions of epochs below Epoch are closed at once, as failures: that process
// is gone. So they are when the node's newer epoch enqueues, gets or checks out.
type NodeDown struct {
	Node  id.NodeID
	Epoch id.Epoch
}

// NodeUp ends the suspicion of the node's sessions of this epoch and closes those of
// older ones. A Checkout or Get of the node ends the suspicion as well: it is there.
type NodeUp struct {
	Node  id.NodeID
	Epoch id.Epoch
}

// Lead is a new leader's first command: from its entry on, this node acts on effects.
// Its effects repeat what earlier ones may have lost: Timer, Backlog, Notices.
type Lead struct {
	Node id.NodeID
	Term uint64
}

// Extend lets a consumer have what it holds for TimeoutMs from now, but not shorter than it
// may (CT-5). What is not held, or has no end, stays as it is.
type Extend struct {
	Consumer  ConsumerKey
	TimeoutMs int64 // from 1
	Ranges    []MsgIDRange
}

// RetryDelayed makes delayed messages ready at once, those that are due first, at most
// Limit of them if it is not 0, and at most ExpireSlice (DR-6). Reply.Count tells how many
// were, Reply.Left how many are still delayed.
type RetryDelayed struct{ Limit uint64 }

// DrainDelete empties the queue for its deletion: what consumers hold returns, not failed,
// sessions end, and from then on nothing is ready any more: what was, is delayed or comes is
// discarded with reason queue_deleted, at most ExpireSlice messages an entry, in the order in
// which it would have been delivered. Unless dead-lettering is off the discarded wait in the
// backlog, whatever the strategy: the queue must not go before they have arrived.
// When it has nothing more, Effects.Unused asks for its deletion. A repeat does nothing.
type DrainDelete struct{}

// Renew counts as a use of the queue, as a declare of it is (QX-2).
type Renew struct{}

func (*Enqueue) kind() kind       { return kindEnqueue }
func (*Transfer) kind() kind      { return kindTransfer }
func (*Checkout) kind() kind      { return kindCheckout }
func (*Cancel) kind() kind        { return kindCancel }
func (*Credit) kind() kind        { return kindCredit }
func (*Settle) kind() kind        { return kindSettle }
func (*Requeue) kind() kind       { return kindRequeue }
func (*Discard) kind() kind       { return kindDiscard }
func (*Get) kind() kind           { return kindGet }
func (*Expire) kind() kind        { return kindExpire }
func (*Purge) kind() kind         { return kindPurge }
func (*Configure) kind() kind     { return kindConfigure }
func (*BacklogSettle) kind() kind { return kindBacklogSettle }
func (*SessionClosed) kind() kind { return kindSessionClosed }
func (*NodeDown) kind() kind      { return kindNodeDown }
func (*NodeUp) kind() kind        { return kindNodeUp }
func (*Lead) kind() kind          { return kindLead }
func (*Renew) kind() kind         { return kindRenew }
func (*Extend) kind() kind        { return kindExtend }
func (*RetryDelayed) kind() kind  { return kindRetryDelayed }
func (*Move) kind() kind          { return kindMove }
func (*Transact) kind() kind      { return kindTransact }
func (*DrainDelete) kind() kind   { return kindDrainDelete }

// Delay says when a message is to be ready: at a time, else after some milliseconds, else
// by what the queue's configuration says. A time that has passed says nothing (DR-4).
type Delay struct {
	At Time
	Ms int64
}

// until returns the time that a delay names, 0 for none.
func (d Delay) until(now Time) Time {
	switch {
	case d.At > now:
		return d.At
	case d.Ms > 0:
		return after(now, d.Ms)
	}
	return 0
}

// ProducerID names a publisher's stream of messages over all nodes that it may publish
// through; it is chosen at random by the publisher.
type ProducerID [16]byte

// Move takes ready messages off the queue (G-13). Unless To is nowhere they wait in the
// backlog, in this order, until the forwarder has brought each to its destination, as it
// does with dead letters (DL-25); that is no death. Places whose message has left are
// skipped, so that a repeat does nothing.
type Move struct {
	To     Destination
	Places []Place
}

// Transact settles messages and takes others in their place, as one decision (G-22): either
// all are settled, and the outputs wait in the backlog, in this order, until the forwarder has
// published each; or nothing changes. An output dies no death on the way (as with Move).
//
// It is not to be repeated when its answer was lost: what it settled is not held any more, so
// that a repeat is refused with CodeNotHeld.
type Transact struct {
	Consumer ConsumerKey
	Ranges   []MsgIDRange // all of these must be with the consumer
	// Outputs[i] has the body FirstSlot+i.
	Outputs []Output
}

// Output is a message that a Transact publishes, with the keys that it has in its body.
type Output struct {
	Exchange string
	Size     uint32 // bytes of body (D-5)
}

// MaxDestinations bounds the destinations to which messages of one queue are on their way.
const MaxDestinations = 1000
