package quorumq

import "github.com/quorate/quorate/id"

// Queue is one queue's state. The zero value is not usable; see New and Restore. It is
// owned by one goroutine at a time.
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

	// used is when the queue was used last (QX-1): while it has consumers, that is not looked
	// at.
	used Time
	// consumed tells, with Config.AutoDelete, that there was a consumer under it.
	consumed bool
	// dissolving: it is being emptied for its deletion.
	dissolving bool

	// timer is the newest Effects.Timer that has not come due yet.
	timer Time
	stats stats

	// What follows is scratch of one Apply, kept for its storage.
	reply     Reply
	effects   Effects
	refused   []Seq
	delivery  Delivery
	assignedN int  // assignments of this Apply
	more      bool // assignments are left for the next Apply
	ranges    []MsgIDRange
	entry     uint64 // whose commands are applied
	handled   int    // due messages that they have handled
	overfull  bool   // limits are looked at once consumers have been served (LEN-9)
	granted   bool   // a message that comes may take one other's place beyond the slice
}

// stats counts since the creation of the queue (ST-1, DL-52).
type stats struct {
	enqueued, refused, settled, expired, delivered     uint64
	redelivered, returned, limitHits, dedup, confirmed uint64
	repeats, moved, removed, abandoned, abandonedBytes uint64
	returnedFailed, gets, emptyGets, timeouts          uint64
	discarded                                          [3][LastReason + 1]uint64 // by DeadLetterMode, then Reason
}

// New returns an empty queue under the configuration c.
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

// UID returns the queue's name for ever.
func (q *Queue) UID() id.QueueUID { return q.uid }

// Apply carries out one command and tells what came of it. It never panics over
// anything that input can cause; the Reply, the Effects and their slices are valid until
// the next Apply.
//
// Every command first expires what is due at its time, as far as ExpireSlice allows (TTL-2,
// TTL-6, TTL-7), and last assigns what consumers have credit for, at most AssignChunk
// messages; if more is left, Effects.Timer asks for an Expire at once.
func (q *Queue) Apply(m Meta, c Command) (Reply, Effects) {
	q.begin(m)
	q.expireDue()
	q.reply = Reply{}
	q.dispatch(m, c)
	q.assign()
	q.enforce()
	q.more = q.more || q.excess()
	q.reportUnused(c)
	q.setTimer()
	q.effects.Notices = q.subs.notices
	q.verify(m)
	return q.reply, q.effects
}

func (q *Queue) begin(m Meta) {
	q.now = max(q.now, m.Now)
	if q.used == 0 {
		q.used = q.now // the first command of all
	}
	e := &q.effects
	*e = Effects{
		Deliver: e.Deliver[:0],
		Copies:  e.Copies[:0],
		Release: e.Release[:0],
	}
	q.subs.notices = q.subs.notices[:0]
	q.refused = q.refused[:0]
	q.assignedN, q.more = 0, false
	q.beginEntry(m.Index)
}

func (q *Queue) dispatch(m Meta, c Command) {
	switch c := c.(type) {
	case *Enqueue:
		q.applyEnqueue(m, c)
	case *Transfer:
		q.applyTransfer(m, c)
	case *Checkout:
		q.applyCheckout(c)
	case *Cancel:
		q.applyCancel(c)
	case *Credit:
		q.applyCredit(c)
	case *Settle:
		q.applySettle(c)
	case *Return:
		q.applyReturn(m, c)
	case *Discard:
		q.applyDiscard(m, c)
	case *Get:
		q.applyGet(c)
	case *Expire:
		// Done by every command.
	case *Purge:
		q.applyPurge()
	case *Move:
		q.applyMove(c)
	case *Transact:
		q.applyTransact(m, c)
	case *Configure:
		q.applyConfigure(c)
	case *BacklogSettle:
		q.applyBacklogSettle(c)
	case *SessionClosed:
		q.applySessionClosed(c)
	case *NodeDown:
		q.applyNodeDown(c)
	case *NodeUp:
		q.applyNodeUp(c)
	case *Lead:
		q.applyLead()
	case *Extend:
		q.applyExtend(c)
	case *Dissolve:
		q.applyDissolve()
	case *Renew:
		q.used = q.now
	case *RetryDelayed:
		q.applyRetryDelayed(c)
	default:
		q.reply.Code = CodeMalformed
	}
}

// counted returns what the length limits count (LEN-1, DL-20).
func (q *Queue) counted() (messages, size uint64) {
	messages, size = uint64(q.store.len()), q.store.ready.bytes+q.store.delays.bytes
	if q.config.apart() {
		return messages, size
	}
	return messages + uint64(q.backlog.set.len()), size + q.backlog.bytes
}
