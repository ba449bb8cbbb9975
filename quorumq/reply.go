package quorumq

// Reply is the answer to a command. The fields that are set depend on the command; the zero Reply
// means success.
type Reply struct {
	Code ReplyCode
	// Next is the number that the queue expects, with CodeGap.
	Next Seq
	// Refused lists, ascending, the numbers of the Enqueue or Transfer that a limit refused
	// (LEN-4, DL-25); all others are stored, now or by an earlier copy.
	Refused []Seq
	// Stored is how many messages this command enqueued; the rest were repeats or refused.
	Stored int
	// Delivery is what Get assigned; nil if the queue has nothing.
	Delivery *Delivery
	// Count is how many messages Purge removed, Move took, Configure dropped from the backlog
	// (DL-27), Transact published, or RetryDelayed made ready; how many deadlines Extend extended;
	// or how many ready messages are left after Get; or 1 if the queue is sealed, after Seal; or how many of Refused a
	// Transfer has for MaxSourceRanges.
	Count uint64
	// Left is how many messages are still delayed, after RetryDelayed.
	Left uint64
	// LastMsgID is the consumer's newest id, after Checkout: new ids follow it, and a Credit limit
	// counts from it.
	LastMsgID MsgID
}

// decided sets the code by whether a consumer held any of the messages that it has decided about
// (DEL-6).
func (r *Reply) decided(any bool) {
	if !any {
		r.Code = CodeNotHeld
	}
}

// ReplyCode is the reason why a command was not applied.
type ReplyCode uint8

// The codes. A command with a code other than CodeOK has changed nothing, except that one with
// CodeNotHeld may have settled deliveries that had timed out (CT-2), and that an Enqueue with
// CodeDrainDeleting is decided like one with CodeOK.
const (
	CodeOK ReplyCode = iota
	// CodeGap: the Enqueue starts above the next expected number; resend from Next (PUB-6).
	CodeGap
	// CodeFenced: a newer epoch of the node has enqueued or opened a session; the sending process
	// is gone.
	CodeFenced
	// CodeUnknownConsumer: no such consumer (closed, timed out, or cancelled and all its messages
	// settled). Its messages have returned to the queue or are settled.
	CodeUnknownConsumer
	// CodeExclusive: another consumer has, or bars, exclusive access (CO-2).
	CodeExclusive
	// CodeMalformed: this version cannot decode the bytes, or a number or tag is 0.
	CodeMalformed
	// CodeSingleActive: Get of a queue with a single active consumer (DEL-5).
	CodeSingleActive
	// CodeTooMany: the backlog already has MaxDestinations destinations, or a Transact would exceed
	// MaxMoving.
	CodeTooMany
	// CodeNotHeld: a Transact names a message that its consumer does not hold, or a Settle, Requeue
	// or Discard names none that it holds: they were settled, perhaps by an earlier attempt, or
	// have returned to the queue. Leaders of older builds answer CodeOK to the latter.
	CodeNotHeld
	// CodeDrainDeleting: the queue is being emptied for its deletion, or that is decided; it takes no consumers.
	// With an Enqueue: that is why it refused messages, and not a limit.
	CodeDrainDeleting
	// CodeSourceGone: the queue that a Transfer is from is deleted, so this queue may have forgotten
	// what it has of it (DL-25). The leader answers that; the command is in no log.
	CodeSourceGone
)

// Delivery is a message assigned to a consumer.
type Delivery struct {
	Consumer ConsumerKey
	MsgID    MsgID
	Body     BodyRef
	// Annotations refers to the annotations given with a return; zero if none (DEL-11).
	Annotations   BodyRef
	DeliveryCount uint32 // failed deliveries so far (DEL-10)
	AcquiredCount uint32 // earlier assignments; above 0: redelivered (DEL-10)
}

// Discarded is a message on the way to its dead-letter targets.
type Discarded struct {
	Seq           Seq // number in the backlog; 0 for at-most-once copies
	Body          BodyRef
	Annotations   BodyRef
	Reason        Reason
	DeliveryCount uint32
	AcquiredCount uint32
	At            Time // when it was discarded
	// To is the destination of a moved message, which is not a dead letter and has no Reason; nil
	// for all others. It never changes.
	To *Destination
}

// Effects are actions outside the machine that result from a command. Only the leader that leads by
// a Lead command acts on them, except for Release. Each effect may be lost; its comment names what
// repairs the loss.
type Effects struct {
	Deliver []Delivery  // to gateways; repaired by Queue.Assigned after the last MsgID seen
	Notices []Notice    // to gateways; repaired by Checkout, Lead or Queue.Activity; NoticeRevoked is not
	Copies  []Discarded // at-most-once dead letters to send now; not repaired, by contract (DL-12)
	Backlog bool        // the backlog has changed, for the forwarder; repeated by Lead
	Unused  bool        // the queue should be deleted (QX-1, Q-5); repeated every RepeatUnusedMs, and by Lead
	// Dropped counts the messages that failed too often and were dropped because there is no
	// dead-letter exchange (DEL-9).
	Dropped uint64
	Timer   Time // propose Expire at this time; replaces the earlier one; 0: unchanged. Repeated by Lead
	// Release lists the bodies that no member needs any more, including those of repeats and
	// refusals in the command itself; repaired by Frozen.Live at snapshots. A body may also be in
	// Deliver (auto-ack) or Copies: the leader reads it first.
	Release []BodyRef
}

// release records that no member needs a body any more.
func (e *Effects) release(r BodyRef) { e.Release = append(e.Release, r) }

// releaseSlots releases the bodies of n messages of a command.
func (e *Effects) releaseSlots(m Meta, n int) {
	for i := range n {
		e.release(BodyRef{Index: m.Index, Slot: m.FirstSlot + uint32(i)})
	}
}

// NoticeKind is the meaning of a Notice.
type NoticeKind uint8

// The kinds of notices.
const (
	// NoticeCancelled: the queue has removed the consumer.
	NoticeCancelled NoticeKind = iota + 1
	// NoticeLeader: this queue's leader changed; resend and resume. There is one for each session,
	// with any of its consumers.
	NoticeLeader
	// NoticeActive: the consumer is the active one (SAC-4).
	NoticeActive
	// NoticeWaiting: another consumer is the active one.
	NoticeWaiting
	// NoticeRevoked: the ack deadline of Notice.Messages has passed; they are back in the queue
	// (CT-3).
	NoticeRevoked
)

// Notice is a message to a consumer's gateway that is not a delivery.
type Notice struct {
	Consumer ConsumerKey
	Kind     NoticeKind
	Messages MsgIDRange // of NoticeRevoked
}

// Overview has the queue's statistics (ST-1). Nodes exchange and store it as JSON: its keys never
// change, and what is 0 is left out, which is most of it for most of thousands of queues.
type Overview struct {
	Ready, Returned, Unsettled, Backlog, Delayed            uint64                    `json:",omitzero"` // messages; Ready includes Returned
	ReadyBytes, UnsettledBytes, BacklogBytes, DelayedBytes  uint64                    `json:",omitzero"`
	Consumers, Sessions, Enqueuers                          int                       `json:",omitzero"`
	ReadyByPriority                                         [32]uint64                `json:",omitzero"`
	Enqueued, Refused, Settled, Expired, Dropped, Delivered uint64                    `json:",omitzero"` // since creation
	Redelivered, ReturnedTotal, DeliveryLimitHits, Dedup    uint64                    `json:",omitzero"` // Dedup: transfers answered from memory
	Repeats                                                 uint64                    `json:",omitzero"` // messages that a producer sent again and that were answered from memory
	DeadLettered                                            [LastReason + 1]uint64    `json:",omitzero"` // by Reason; Dropped counts those without dead-lettering
	Discarded                                               [3][LastReason + 1]uint64 `json:",omitzero"` // by DeadLetterMode, then Reason (DL-52)
	Confirmed                                               uint64                    `json:",omitzero"` // dead letters of the backlog that the forwarder settled (DL-52)
	Moving, Moved, Removed                                  uint64                    `json:",omitzero"` // by Move (G-13): in the backlog, sent from it, removed
	Abandoned, AbandonedBytes                               uint64                    `json:",omitzero"` // dead letters dropped when at-least-once ended (DL-27)
	ReturnedFailed                                          uint64                    `json:",omitzero"` // of ReturnedTotal, those whose delivery failed (DEL-8)
	Gets, EmptyGets                                         uint64                    `json:",omitzero"` // Gets that had a message, and those that found none
	ConsumerTimeouts                                        uint64                    `json:",omitzero"` // deliveries whose ack deadline passed (CT-2)
	ConsumersIdle                                           int                       `json:",omitzero"` // consumers that could take a message now
	SourceRanges                                            uint64                    `json:",omitzero"` // ranges of numbers of dead letters that it remembers (DL-25)
	// DrainDeleting: the queue is being emptied for its deletion, or is sealed.
	DrainDeleting bool `json:"Dissolving,omitzero"`

	Full          bool   `json:",omitzero"` // the queue would refuse even an empty message (LEN-7)
	OldestReady   Time   `json:",omitzero"` // when the oldest ready message was enqueued; 0 = none
	OldestBacklog Time   `json:",omitzero"` // when the first message of the backlog was discarded; 0 = none
	NextDelayed   Time   `json:",omitzero"` // when the first delayed message is due (DR-3); 0 = none
	Now           Time   `json:",omitzero"`
	Config        Config `json:",omitzero"`
}

// delivery returns what is sent to the consumer for an assignment.
func (a *assigned) delivery(k ConsumerKey) Delivery {
	return Delivery{
		Consumer:      k,
		MsgID:         a.id,
		Body:          a.body(),
		Annotations:   a.annotations(),
		DeliveryCount: a.failures,
		AcquiredCount: a.acquired,
	}
}
