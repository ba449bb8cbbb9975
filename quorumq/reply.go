package quorumq

// Reply answers a command. Which fields count depends on the command; the zero Reply
// means done.
type Reply struct {
	Code ReplyCode
	// Next is the number that the queue expects, with CodeGap.
	Next Seq
	// Refused lists, ascending, the numbers of the Enqueue (or letters of the Transfer)
	// that a limit refused (LEN-4); all others are stored, now or by an earlier copy.
	Refused []Seq
	// Stored is how many messages or letters this very command enqueued; the rest were
	// repeats or refused.
	Stored int
	// Delivery is what Get assigned; nil if the queue has nothing.
	Delivery *Delivery
	// Count is what Purge removed, Move took, Configure dropped of the backlog (DL-27), Transact published, Extend extended or RetryDelayed made ready, or the
	// ready messages left after Get.
	Count uint64
	// Left is how many messages are still delayed, after RetryDelayed.
	Left uint64
	// LastMsgID is the consumer's newest id, after Checkout: it numbers on from there, and
	// a Credit limit counts from there.
	LastMsgID MsgID
}

// decided answers whether a consumer held any of the messages that it has decided about (DEL-6).
func (r *Reply) decided(any bool) {
	if !any {
		r.Code = CodeNotHeld
	}
}

// ReplyCode tells why a command was not carried out.
type ReplyCode uint8

// The codes. A command with another code than CodeOK has changed nothing; one with CodeNotHeld
// may have answered for deliveries that had timed out (CT-2).
const (
	CodeOK ReplyCode = iota
	// CodeGap: the Enqueue starts above the next expected number; resend from Next (PUB-6).
	CodeGap
	// CodeFenced: a newer epoch of the node has enqueued or opened a session; the sender is gone.
	CodeFenced
	// CodeUnknownConsumer: no such consumer (closed, timed out, or cancelled and all its
	// messages settled). What it held has returned to the queue or is settled.
	CodeUnknownConsumer
	// CodeExclusive: another consumer has, or bars, exclusive access (CO-2).
	CodeExclusive
	// CodeMalformed: the bytes decode to nothing that this version knows, or a number or
	// tag is 0.
	CodeMalformed
	// CodeSingleActive: Get of a queue with a single active consumer (DEL-5).
	CodeSingleActive
	// CodeTooMany: messages are on their way to MaxDestinations others already, or so many that
	// a Transact would make them more than MaxMoving.
	CodeTooMany
	// CodeNotHeld: a Transact names a message that its consumer does not hold, or a Settle, Requeue
	// or Discard names none that it holds: they were settled, by an earlier try perhaps, or have
	// returned to the queue. Leaders of older builds answer CodeOK to the latter.
	CodeNotHeld
	// CodeDrainDeleting: the queue is being emptied for its deletion; it takes no consumers.
	CodeDrainDeleting
)

// Delivery is a message assigned to a consumer.
type Delivery struct {
	Consumer ConsumerKey
	MsgID    MsgID
	Body     BodyRef
	// Annotations is the body with annotations given on a return; zero if none (DEL-11).
	Annotations   BodyRef
	DeliveryCount uint32 // failed deliveries so far (DEL-10)
	AcquiredCount uint32 // earlier assignments; above 0: redelivered (DEL-10)
}

// Discarded is a message on its way to dead-letter targets.
type Discarded struct {
	Seq           Seq // number in the backlog; 0 for at-most-once copies
	Body          BodyRef
	Annotations   BodyRef
	Reason        Reason
	DeliveryCount uint32
	AcquiredCount uint32
	At            Time // when it was discarded
	// To is where a moved message goes, which is no dead letter and has no Reason; nil for all
	// others. It never changes.
	To *Destination
}

// Effects are what a command wants done outside the machine. Only the leader that
// leads by a Lead command acts on them, Release excepted. Each is a hint: the comment
// says how its loss is repaired.
type Effects struct {
	Deliver []Delivery  // to gateways; repaired by Queue.Assigned after the last MsgID seen
	Notices []Notice    // to gateways; repaired by Checkout, Lead or Queue.Activity; NoticeRevoked is not
	Copies  []Discarded // at-most-once dead letters to send now; not repaired, by contract (DL-12)
	Backlog bool        // the backlog has news for the forwarder; repeated by Lead
	Unused  bool        // the queue is to be deleted (QX-1, Q-5); repeated each RepeatUnusedMs, and by Lead
	// Dropped counts the messages that failed too often and went nowhere, for want of a dead-letter
	// exchange (DEL-9).
	Dropped uint64
	Timer   Time // propose Expire then; replaces the earlier one; 0 = unchanged. Repeated by Lead
	// Release names the bodies that no member needs any more, repeats and refusals among
	// the command's own included; repaired by Queue.Live at snapshots. A body may be in
	// Deliver (auto-ack) or Copies as well: the leader reads it first.
	Release []BodyRef
}

// release says that a body is no longer needed on any member.
func (e *Effects) release(r BodyRef) { e.Release = append(e.Release, r) }

// releaseSlots releases the bodies of n messages of a command.
func (e *Effects) releaseSlots(m Meta, n int) {
	for i := range n {
		e.release(BodyRef{Index: m.Index, Slot: m.FirstSlot + uint32(i)})
	}
}

// NoticeKind is what a Notice tells.
type NoticeKind uint8

// The kinds of notices.
const (
	// NoticeCancelled: the consumer is gone without its client's wish.
	NoticeCancelled NoticeKind = iota + 1
	// NoticeLeader: this queue's leader changed; resend and resume. There is one for each
	// session, whichever of its consumers it names.
	NoticeLeader
	// NoticeActive: the consumer is the one that receives (SAC-4).
	NoticeActive
	// NoticeWaiting: another consumer is the one that receives.
	NoticeWaiting
	// NoticeRevoked: the consumer had Notice.Messages for too long; they are back in the queue
	// (CT-3).
	NoticeRevoked
)

// Notice tells a consumer's gateway something that is not a delivery.
type Notice struct {
	Consumer ConsumerKey
	Kind     NoticeKind
	Messages MsgIDRange // of NoticeRevoked
}

// Overview is the queue's state in figures (ST-1). As JSON it goes between nodes and is stored: its keys
// never change.
type Overview struct {
	Ready, Returned, Unsettled, Backlog, Delayed            uint64 // messages; Ready includes Returned
	ReadyBytes, UnsettledBytes, BacklogBytes, DelayedBytes  uint64
	Consumers, Sessions, Enqueuers                          int
	ReadyByPriority                                         [32]uint64
	Enqueued, Refused, Settled, Expired, Dropped, Delivered uint64                    // since creation
	Redelivered, ReturnedTotal, DeliveryLimitHits, Dedup    uint64                    // Dedup: transfers answered from memory
	Repeats                                                 uint64                    // messages that a producer sent again and that were answered from memory
	DeadLettered                                            [LastReason + 1]uint64    // by Reason; Dropped counts those without dead-lettering
	Discarded                                               [3][LastReason + 1]uint64 // by DeadLetterMode, then Reason (DL-52)
	Confirmed                                               uint64                    // dead letters of the backlog that the forwarder settled (DL-52)
	Moving, Moved, Removed                                  uint64                    // by Move (G-13): in the backlog, gone from it, taken off
	Abandoned, AbandonedBytes                               uint64                    // dead letters dropped when at-least-once ended (DL-27)
	ReturnedFailed                                          uint64                    // of ReturnedTotal, those whose delivery failed (DEL-8)
	Gets, EmptyGets                                         uint64                    // Gets that had a message, and those that found none
	ConsumerTimeouts                                        uint64                    // deliveries that consumers had for too long (CT-2)
	ConsumersIdle                                           int                       // consumers that would take a message now
	// DrainDeleting: it is being emptied for its deletion.
	DrainDeleting bool `json:"Dissolving"`

	Full          bool // not even an empty message would be taken (LEN-7)
	OldestReady   Time // when the oldest ready message was enqueued; 0 = none
	OldestBacklog Time // when the first message of the backlog came there; 0 = none
	NextDelayed   Time // when the first delayed message is due (DR-3); 0 = none
	Now           Time
	Config        Config
}

// delivery is what the consumer is sent of an assignment.
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
