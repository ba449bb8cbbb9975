// Package event keeps what happened lately, for those who watch: a bounded list in memory
// that never holds up who adds to it (ST-5).
package event

import (
	"context"
	"slices"
	"sync"

	"github.com/quorate/quorate/id"
)

// Kind is what happened.
type Kind string

// The kinds. Those from LeaderChanged on come from the queue's leader unless noted otherwise, the others from the
// catalog.
const (
	QueueCreated        Kind = "queue_created"
	QueueDeleted        Kind = "queue_deleted"
	QueueDeleting       Kind = "queue_deleting" // its messages are dead-lettered first
	QueueChanged        Kind = "queue_changed"
	MemberAdded         Kind = "member_added"
	MemberRemoved       Kind = "member_removed"
	ExchangeCreated     Kind = "exchange_created"
	ExchangeDeleted     Kind = "exchange_deleted"
	BindingCreated      Kind = "binding_created"
	BindingDeleted      Kind = "binding_deleted"
	PolicyCreated       Kind = "policy_created"
	PolicyChanged       Kind = "policy_changed"
	PolicyDeleted       Kind = "policy_deleted"
	VHostCreated        Kind = "vhost_created"
	VHostChanged        Kind = "vhost_changed"
	VHostDeleted        Kind = "vhost_deleted"
	LeaderChanged       Kind = "leader_changed"
	QueueFull           Kind = "queue_full"
	QueueNotFull        Kind = "queue_not_full"
	DeadLetterBlocked   Kind = "dead_letter_blocked"
	DeadLetterUnblocked Kind = "dead_letter_unblocked"
	ConsumerTimeout     Kind = "consumer_timeout"
	DegradedStrategy    Kind = "degraded_strategy"
	MessagesDropped     Kind = "messages_dropped" // they failed too often, and the queue has no dead-letter exchange (DEL-9)
	LeadersSpread       Kind = "leaders_spread"   // from the catalog's leader, of all vhosts
	NodeReplaced        Kind = "node_replaced"    // from the node that has carried it out; Node is the one whose store was given up
	// ClockStepped and ClockJumped come from a node: its wall clock, or the time with which it stamps commands, was
	// set. Detail has the difference.
	ClockStepped Kind = "clock_stepped"
	ClockJumped  Kind = "clock_jumped"
	// QuotaReached and QuotaOver come from the node whose clients a quota bounds (VH-14). Cause is the limit, Detail
	// is whether Name is a user, a vhost or a queue, and Count is the value.
	QuotaReached Kind = "quota_reached"
	QuotaOver    Kind = "quota_over"
	// Missed stands for events that were not kept long enough; Count is their number.
	Missed Kind = "missed"
)

// Kinds returns all kinds but Missed and Audit.
func Kinds() []Kind {
	return []Kind{
		QueueCreated, QueueDeleting, QueueDeleted, QueueChanged, MemberAdded, MemberRemoved, ExchangeCreated, ExchangeDeleted, BindingCreated,
		BindingDeleted, PolicyCreated, PolicyChanged, PolicyDeleted, VHostCreated, VHostChanged, VHostDeleted, LeaderChanged,
		QueueFull, QueueNotFull, DeadLetterBlocked, DeadLetterUnblocked, ConsumerTimeout, DegradedStrategy, MessagesDropped, LeadersSpread, ClockStepped,
		ClockJumped, NodeReplaced, QuotaReached, QuotaOver,
	}
}

// Event is one thing that happened.
type Event struct {
	Seq    uint64 // in its log: of the catalog the index of the command, else rising by one
	AtMs   int64  // milliseconds since the Unix epoch, by the clock of the node
	Node   id.NodeID
	Kind   Kind
	VHost  string
	Name   string // of the queue, exchange, binding, policy or vhost
	Cause  string // why, where there is a reason
	Detail string // such as the node that became leader or member
	Count  uint64 // of Missed: events; of ConsumerTimeout: deliveries; of MessagesDropped: messages
	// Audit is of the kind Audit; nil: of another.
	Audit *Audited
}

// Audited is what a record of the kind Audit says besides. It never changes.
type Audited struct {
	User      string // "": nobody has to log in; "node:ID": a node did it by itself
	Mechanism string // by which the user logged in
	Protocol  string // grpc, amqp, http, or node
	Address   string // of the client
	Client    string // what the client calls itself
	Operation string
	Object    string // kind of the object, such as queue
	Outcome   string
	Changes   []Change // those fields alone that differ
}

// Change is a field before and after; "" is no value. Secrets are reported as changed, without a value.
type Change struct{ Field, Before, After string }

// DefaultKeep is the number of events that a log keeps.
const DefaultKeep = 4096

// Log keeps the newest events. All methods may be called concurrently; mu guards all.
type Log struct {
	mu      sync.Mutex
	keep    int
	events  []Event // ascending by Seq
	lost    uint64  // Seq of the newest event that is no longer kept
	last    uint64
	counts  map[Kind]uint64
	changed chan struct{}
}

// NewLog returns an empty log that keeps so many events, DefaultKeep for 0.
func NewLog(keep int) *Log {
	if keep <= 0 {
		keep = DefaultKeep
	}
	return &Log{keep: keep, counts: map[Kind]uint64{}, changed: make(chan struct{})}
}

// Add appends events and does not wait. A Seq of 0 stands for the next number; one that
// is not above that of the last call was added before and is passed over. Those that have one
// Seq must be added together.
func (l *Log) Add(events ...Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.last
	for _, e := range events {
		if e.Seq == 0 {
			e.Seq = l.last + 1
		}
		if e.Seq > before {
			l.add(e)
		}
	}
	if l.last > before {
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

// add forgets the oldest half when there are twice as many as are kept.
func (l *Log) add(e Event) {
	if len(l.events) >= 2*l.keep { // rarely, so that adding costs little
		l.lost = l.events[len(l.events)-l.keep-1].Seq
		l.events = slices.Clone(l.events[len(l.events)-l.keep:])
	}
	l.last = e.Seq
	l.events = append(l.events, e)
	l.counts[e.Kind]++
}

// Last returns the number of the newest event; 0: none.
func (l *Log) Last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Counts returns how many events of each kind there were.
func (l *Log) Counts() map[Kind]uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[Kind]uint64, len(l.counts))
	for k, n := range l.counts {
		out[k] = n
	}
	return out
}

// Read returns up to limit events with numbers above after, the oldest first, and all that have
// the number of the last of them. If older ones
// were not kept, the first stands for them: its kind is Missed and its Count how many, at
// most.
func (l *Log) Read(after uint64, limit int) []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Event
	if after < l.lost {
		out = append(out, Event{Seq: l.lost, Kind: Missed, Count: l.lost - after})
		after = l.lost
	}
	from, _ := slices.BinarySearchFunc(l.events, after+1, func(e Event, seq uint64) int {
		switch {
		case e.Seq < seq:
			return -1
		case e.Seq > seq:
			return 1
		}
		return 0
	})
	to := min(len(l.events), from+limit)
	for to > from && to < len(l.events) && l.events[to].Seq == l.events[to-1].Seq {
		to++
	}
	return append(out, l.events[from:to]...)
}

// Await is Read that waits for the first event until ctx ends; then it returns nothing.
func (l *Log) Await(ctx context.Context, after uint64, limit int) []Event {
	for {
		l.mu.Lock()
		changed := l.changed
		l.mu.Unlock()
		if found := l.Read(after, limit); len(found) > 0 {
			return found
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}
