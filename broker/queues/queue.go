package queues

import (
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/forwarding"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
)

// The states of a queue (ST-1).
const (
	StateDeleting = "deleting" // its messages are dead-lettered before it is deleted, or it is sealed
	StateRunning  = "running"  // it has a leader
	StateMinority = "minority" // fewer than a majority of its members run
	StateDown     = "down"     // none of its members runs
)

// Queue is a queue with its figures.
type Queue struct {
	VHost, Name string
	UID         uint64
	Type        string
	Durable     bool
	Exclusive   bool
	AutoDelete  bool
	Arguments   message.Table
	// Policy and OperatorPolicy are the policies in force, "" for none. Effective has the arguments merged with both
	// policies (PO-3, PO-7).
	Policy, OperatorPolicy string
	Effective              message.Table
	EffectivePolicy        message.Table // of both policies alone
	// SettingsPending says that the queue's leader had other settings in force than the newest when it gave the figures
	// . It is false without figures.
	SettingsPending bool
	// DeclaredBy is the user that declared the queue, "" if there is none or it is not known. CountsForDeclarer reports
	// whether the queue counts towards the limits of this user (VH-17).
	DeclaredBy        string
	CountsForDeclarer bool
	State             string // one of the states; "" if figures were not asked for
	Leader            string
	Members           []string
	Online            []string
	Stats             *Stats // nil if not asked for, or if no leader could be reached
	Raft              *RaftStats
}

// Stats are the counts of a queue, exact on its leader at the time of reading (ST-1, ST-3).
type Stats struct {
	Ready, Returned, Unsettled, Backlog       uint64
	ReadyBytes, UnsettledBytes, BacklogBytes  uint64
	Delayed, DelayedBytes                     uint64
	NextDelayedAtMs                           int64 // when the first delayed message is due; 0: none (DR-3)
	Consumers                                 int
	ReadyByPriority                           [32]uint64
	OldestMessageAgeMs                        uint64 // of ready messages; 0: none
	Enqueued, Refused, Delivered, Redelivered uint64 // since the queue was created
	Settled, ReturnedTotal, Expired, Dropped  uint64
	DeliveryLimitHits, DedupHits              uint64
	DeadLettered                              map[string]uint64 // by reason; nil: none
	DeadLetterConfirmed                       uint64            // dead letters that all their targets have stored
	LastDeadLetterError                       string            // why the backlog waits; "": it does not

	ConsumersIdle                             int // consumers that would take a message now
	Gets, EmptyGets, ReturnedFailed, TimedOut uint64
	DeliveryLimit                             int64  // -1: none
	DelayedRetry                              string // which returned messages wait (DR-1)

	DeadLetters        forwarding.DeadLetters
	Discarded          []Discarded
	OldestBacklogAgeMs uint64 // since the oldest message of the backlog was discarded; 0: none
	Abandoned          uint64 // dead letters dropped when at-least-once was switched off (DL-27)
	AbandonedBytes     uint64
}

// Discarded counts the messages discarded for one reason, under one strategy that was in force then (DL-52).
type Discarded struct {
	Reason, Strategy string
	Count            uint64
}

// RaftStats are a queue's Raft figures on its leader.
type RaftStats struct {
	Term, CommitIndex, AppliedIndex, SnapshotIndex, LastIndex uint64
}

// describe returns a queue as the catalog has it, without figures. It makes no call.
func (qs *Queues) describe(v *catalog.View, rec *catalog.QueueRecord) Queue {
	user, operator := qs.policies.Queue(v, rec)
	_, counts := v.DeclarerOf(rec)
	return Queue{
		Policy: policy.NameOf(user), OperatorPolicy: policy.NameOf(operator), Effective: policy.Merge(rec.Arguments, user, operator),
		EffectivePolicy: policy.Merge(nil, user, operator),
		VHost:           rec.VHost, Name: rec.Name, UID: uint64(rec.UID), Type: string(rec.Type), Durable: rec.Durable,
		Exclusive: rec.Exclusive, AutoDelete: rec.AutoDelete,
		Arguments: rec.Arguments, Members: id.Names(rec.Members),
		DeclaredBy: rec.DeclaredBy, CountsForDeclarer: counts,
	}
}
