package quorumq

import "github.com/quorate/quorate/id"

// Queue is one queue's state. The zero value is not usable; see New and Restore. One goroutine at a
// time owns it.
type Queue struct {
	uid    id.QueueUID
	config Config
	now    Time // newest time seen (C-6)

	store store
	nodes nodes
	subs  subscriptions

	transfers transfers
	producers producers

	backlog     backlog
	annotations annotations

	idle idle
	// drainDeleting: the queue is being emptied before it is deleted.
	drainDeleting bool

	// timer is the newest Effects.Timer that is not due yet.
	timer Time
	stats stats

	// The following fields are scratch memory of one Apply, kept for reuse.
	reply     Reply
	effects   Effects
	refused   []Seq
	delivery  Delivery
	assignedN int  // assignments of this Apply
	more      bool // some assignments are left for the next Apply
	ranges    []MsgIDRange
	budget    budget
	overfull  bool // limits must be checked after consumers have been served (LEN-9)
}

// New returns an empty queue with the configuration c.
func New(uid id.QueueUID, c Config) *Queue {
	q := &Queue{
		uid:         uid,
		config:      c.Normal(),
		transfers:   make(transfers),
		annotations: make(annotations),
	}
	q.store.init(&q.config)
	q.producers.byID = make(map[ProducerID]*producer)
	q.nodes.byID = make(map[id.NodeID]*node)
	q.subs.init(q.config.SingleActive)
	q.backlog.init()
	return q
}

// UID returns the queue's unique id, which is never reused.
func (q *Queue) UID() id.QueueUID { return q.uid }

// len returns the number of all messages, wherever they are.
func (q *Queue) len() int { return q.store.len() + q.subs.unacked.messages + q.backlog.set.len() }

// length returns what the length limits count.
func (q *Queue) length() length {
	l := length{
		messages: uint64(q.store.len()),
		bytes:    q.store.bytes(),
		unacked:  uint64(q.subs.unacked.messages),
	}
	if !q.config.apart() {
		l.messages += uint64(q.backlog.set.len())
		l.bytes += q.backlog.bytes
	}
	return l
}

// sealed reports whether the queue takes nothing more: it was emptied for its deletion, or that was decided when it
// was empty or had expired (Seal). The deletion may be committed at any time, and with it goes whatever the queue holds. A
// queue that is sealed stays so.
func (q *Queue) sealed() bool {
	return q.drainDeleting && q.config.Rules >= RulesSeventh && q.len() == 0
}

// refuses reports whether this many more would exceed a limit, and must be refused for that
// (LEN-4).
func (q *Queue) refuses(messages, bytes uint64) bool {
	return q.config.refuses(q.backlog.set.len()) && q.length().exceeds(&q.config, messages, bytes)
}
