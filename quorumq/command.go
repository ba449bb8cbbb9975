package quorumq

import "github.com/quorate/quorate/id"

// Command is a pointer to one of the command structs of this package.
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
	kindRenumber
	kindForgetSources
	kindSeal
)

// NewMessage has the properties of a message to be enqueued that the machine needs. Meta and the
// position in the command give the place of the body.
type NewMessage struct {
	// Size is the bytes of body (D-5), or VoidSize.
	Size uint32
	// TTLMs is the message's own TTL in milliseconds (TTL-1); Unlimited: none.
	TTLMs int64
	// Priority is 0 to 31; values above count as 31 (PR-1). DefaultPriority if unset.
	Priority uint8
	// Delay is when the message becomes ready; it is stored and counts at once, and its TTL begins
	// when it is ready (DLY-1). For an Enqueue only.
	Delay
	// Producer, if not nil, and ProducerSeq, ascending from 1, identify the message among those of
	// its publisher. If the queue has decided about the number before, it gives the same answer and
	// stores nothing. For an Enqueue only; the caller must not change the id.
	Producer    *ProducerID
	ProducerSeq uint64
	// Joined puts the next message into the same unit as this one: all messages of a unit are
	// stored, or all are refused (PUB-9). For an Enqueue only; a unit ends in its command and
	// has no producers.
	Joined bool
	// Past, if not nil, marks the message as restored, and is its history. For an Enqueue only; the caller must not
	// change it.
	Past *Past
}

// Void returns what takes the message's place, stores nothing, and gets the answer whether the queue had
// taken the message before (PUB-5).
func (m *NewMessage) Void() NewMessage {
	return NewMessage{Size: VoidSize, TTLMs: Unlimited, Producer: m.Producer, ProducerSeq: m.ProducerSeq, Joined: m.Joined}
}

// DefaultPriority is the level of a message without priority (PR-1).
const DefaultPriority uint8 = 4

// Enqueue appends a batch of one enqueuer's messages; Messages[i] has the sequence
// number First+i and the body FirstSlot+i (PUB-6).
type Enqueue struct {
	Enqueuer EnqueuerKey
	First    Seq
	// Answered is the number up to which the enqueuer has all answers and will not send again: the
	// queue can forget refusals up to it.
	Answered Seq
	Messages []NewMessage
}

// Transfer brings dead letters of the queue Source to this queue (DL-25). Repeats are answered,
// never enqueued twice.
type Transfer struct {
	Source id.QueueUID
	// Settled is the source's watermark: it never again sends a number ≤ Settled.
	Settled     Seq
	DeadLetters []DeadLetter
}

// DeadLetter is one of a Transfer; Seq is its number in the source's backlog. DeadLetters[i] has
// the body FirstSlot+i.
type DeadLetter struct {
	Seq Seq
	NewMessage
}

// Checkout registers a consumer, or changes one of the same key (CO-3).
type Checkout struct {
	Consumer ConsumerKey
	// Prefetch limits the unsettled messages; 0 is MaxOutstanding (DEL-3).
	Prefetch uint32
	// Credit switches to explicit credit: messages up to MsgID Limit may be assigned.
	Credit bool
	Limit  MsgID
	// AutoAck settles at assignment (DEL-4).
	AutoAck   bool
	Priority  int32 // higher first (DEL-2)
	Exclusive bool  // CO-2
	// TimeoutMs is the consumer's own timeout in milliseconds if HasTimeout (CT-1); 0: none.
	HasTimeout bool
	TimeoutMs  int64
}

// MaxOutstanding limits the unsettled messages of one consumer (DEL-3).
const MaxOutstanding = 2000

// Cancel ends a subscription: nothing new is assigned. Unsettled messages stay with
// the session (CO-3) unless Requeue is set: then they return, not failed.
type Cancel struct {
	Consumer ConsumerKey
	Requeue  bool
}

// Credit raises a consumer's limit: messages up to MsgID Limit may be assigned. The limit is
// absolute, so a repeated or old Credit has no effect.
type Credit struct {
	Consumer ConsumerKey
	Limit    MsgID
}

// Settle removes messages from the queue (DEL-8 accept). Unknown ids are ignored, so a repeat has
// no effect (DEL-6).
type Settle struct {
	Consumer ConsumerKey
	Ranges   []MsgIDRange
}

// Requeue returns messages to the queue (DEL-8 release, fail) in delivery order (DEL-1). If
// HasAnnotations the command has one body, merged into each message when it is read (DEL-11). It
// replaces the annotations of an earlier return: a caller that returns an annotated message merges
// the two.
//
// Delay is when they become ready; it takes precedence over Config.Retry (DR-4).
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

// Expire handles due work: expired messages (TTL-6), delayed messages (DR-3) and disconnected
// consumers (DC-1), at most ExpireSlice messages; Effects.Timer is the time of the next Expire
// (TTL-7).
type Expire struct{}

const (
	// ExpireSlice limits the due messages that all commands of one log entry handle together
	// (TTL-7), and so the time that a client waits for a command.
	ExpireSlice = 1024
	// ExpireChunk is the limit for each command with RulesFirst, and the limit of an entry with a
	// Get, which expires the messages before the one that it returns.
	ExpireChunk = 4096
)

// Purge removes ready and delayed messages and the backlog.
type Purge struct{}

// Configure puts a configuration in force.
type Configure struct{ Config Config }

// BacklogSettle removes forwarded messages from the backlog (DL-21).
type BacklogSettle struct{ Ranges []SeqRange }

// SessionClosed ends a session for good: its consumers are removed, and their messages return as
// failed deliveries or reach the delivery limit (DEL-8). A later Checkout or Get of the session
// gets CodeUnknownConsumer; session numbers are not reused.
type SessionClosed struct {
	Session SessionKey
	// Unsent are deliveries that return without a failure; only with RulesThird.
	Unsent Unsent
}

// Unsent are deliveries to the consumer Tag of a session that never left the leader's node: they do
// not count as failures (DEL-8). Ids that the consumer does not hold are ignored.
type Unsent struct {
	Tag    uint32
	Ranges []MsgIDRange
}

// NodeDown suspects the node's consumers: the queue assigns them nothing; after
// Config.DisconnectedTimeoutMs their sessions end and their messages return, not failed (DC-1).
// Sessions of epochs below Epoch are closed at once, as failures, because that process is gone. The
// same happens when a newer epoch of the node enqueues, gets or checks out.
type NodeDown struct {
	Node  id.NodeID
	Epoch id.Epoch
}

// NodeUp ends the suspicion of the node's sessions of this epoch and closes those of older ones. A
// Checkout or Get of the node ends the suspicion too.
type NodeUp struct {
	Node  id.NodeID
	Epoch id.Epoch
}

// Lead is a new leader's first command: from its entry on, the leader's node acts on effects. Its
// own effects repeat those that may have been lost: Timer, Backlog, Notices.
type Lead struct {
	Node id.NodeID
	Term uint64
}

// Extend moves the ack deadlines of deliveries to TimeoutMs from now, but never to an earlier time
// (CT-5). It ignores deliveries that the consumer does not hold, or that have no deadline.
type Extend struct {
	Consumer  ConsumerKey
	TimeoutMs int64 // from 1
	Ranges    []MsgIDRange
}

// RetryDelayed makes delayed messages ready at once, in the order of their times, at most Limit if
// it is not 0, and at most ExpireSlice (DR-6). Reply.Count is their number, Reply.Left the number
// of those still delayed.
type RetryDelayed struct{ Limit uint64 }

// DrainDelete empties the queue for its deletion. Sessions end, and unacked messages return,
// not as failed. From then on no message is ready: ready, delayed and new messages are discarded
// with reason queue_deleted, in delivery order, and at most ExpireSlice messages in an entry.
// Unless dead-lettering is off, the discarded messages wait in the backlog, whatever the strategy,
// because the queue must not be deleted before they have arrived. When the queue is empty,
// Effects.Unused asks for its deletion, and with RulesSeventh it refuses all that still comes. A
// repeat has no effect.
type DrainDelete struct{}

// Renumber makes the numbers of the backlog continue above all that the queue may ever have used. It is for a
// recovery: the log with which the queue continues may lack dead letters that were sent. Their targets know the queue
// by its UID and would drop new dead letters with the same numbers (DL-25). Only with RulesSeventh.
type Renumber struct{}

// ForgetSources removes what the queue remembers of dead letters from queues that are deleted: these send nothing any
// more, and their UIDs are never used again. Unknown ones are ignored. Only with RulesSeventh.
type ForgetSources struct{ Sources []id.QueueUID }

// Seal decides the deletion of the queue if the conditions hold and it is empty; one that has expired loses its messages
// instead. From then on it takes nothing, as an emptied queue under a DrainDelete, and asks for its deletion; sessions end.
// Reply.Count is 1 if the queue is sealed, now or before, else 0: then the command has changed nothing. Only once the
// machine version of RulesSeventh is finalised; a queue that follows older rules follows these from then on.
type Seal struct {
	IfUnused  bool // only if the queue has no consumer
	IfExpired bool // only if the queue has expired, or has lost its last consumer (QX-1, Q-5), but then with its messages
}

// Renew counts as a use of the queue, like a declare of it (QX-2). CodeDrainDeleting: its deletion is decided.
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
func (*Renumber) kind() kind      { return kindRenumber }
func (*ForgetSources) kind() kind { return kindForgetSources }
func (*Seal) kind() kind          { return kindSeal }

// Delay is when a message becomes ready: at a time, else after some milliseconds, else by the
// queue's configuration. A time that has passed is ignored (DR-4).
type Delay struct {
	At Time
	Ms int64
}

// until returns the time that a delay stands for, 0 for none.
func (d Delay) until(now Time) Time {
	switch {
	case d.At > now:
		return d.At
	case d.Ms > 0:
		return after(now, d.Ms)
	}
	return 0
}

// ProducerID identifies a publisher's stream of messages over all nodes; the publisher chooses it
// at random.
type ProducerID [16]byte

// Move removes ready messages from the queue (G-13). Unless To is nowhere, they wait in the
// backlog, in this order, until the forwarder has sent each to its destination like a dead letter
// (DL-25); they get no death. Places whose message has left are skipped, so a repeat has no effect.
type Move struct {
	To     Destination
	Places []Place
}

// Transact settles messages and publishes others in one step (G-22). Either all messages are
// settled, and the outputs wait in the backlog, in this order, until the forwarder has published
// each; or nothing changes. An output gets no death (as with Move).
//
// If its answer was lost, repeating it is safe but has no effect: the consumer no longer holds the
// messages, so a repeat is refused with CodeNotHeld.
type Transact struct {
	Consumer ConsumerKey
	Ranges   []MsgIDRange // all of these must be with the consumer
	// Outputs[i] has the body FirstSlot+i.
	Outputs []Output
}

// Output is a message that a Transact publishes; its body contains its keys.
type Output struct {
	Exchange string
	Size     uint32 // bytes of body (D-5)
}

// MaxDestinations limits the destinations of messages in one queue's backlog.
const MaxDestinations = 1000
