package quorumq

import (
	"cmp"
	"slices"

	"github.com/quorate/quorate/id"
)

// model is a queue in its plainest form: slices that are searched from the front, without counters,
// indexes or chunks. The random test compares it with Queue.
type model struct {
	c            Config
	now          Time
	timer        Time
	index        uint64 // of the entry
	handled      int    // due messages that the entry has handled
	overfull     bool   // limits are looked at after the assignment
	granted      bool   // a new message may replace one other
	used         Time
	consumed     bool
	drainDeleted bool // being emptied
	looks        Time // when ack deadlines are looked at next
	ord, turn    int
	ready        []*mMessage // in order of enqueue
	back         []*mMessage // in order of return
	delayed      []*mMessage // in order of delay
	level        int         // the level whose turn it is with fair priorities, for left more messages
	left         int
	backlog      []Discarded
	sizes        map[BodyRef]uint32 // of the backlog
	seq          Seq                // newest of the backlog
	returns      uint64
	baseID       MsgID
	nodes        map[id.NodeID]*mNode
	sessions     map[SessionKey]MsgID // base of each
	consumers    []*mConsumer
	active       *mConsumer
	joined       int // number of the newest registration
	line         []*mConsumer
	sources      map[id.QueueUID]*mSource

	reply Reply
	e     Effects
}

type mMessage struct {
	body, notes     BodyRef
	size            uint32
	at              Time
	ttl             int64
	level, ord      int
	number          uint64 // of the latest return
	fails, acquired uint32
	due             Time
	fresh           bool // delayed, and never ready
}

type mHeld struct {
	id   MsgID
	turn int
	m    *mMessage
	due  Time
}

type mConsumer struct {
	Checkout
	last      MsgID
	held      []mHeld
	cancelled bool
	joined    int
	looks     Time
	late      []MsgID
}

type mNode struct {
	epoch     id.Epoch
	next      Seq
	refused   []Seq
	closed    []uint64
	suspected bool
	deadline  Time
}

type mSource struct {
	settled Seq
	stored  map[Seq]bool
}

func newModel(c Config) *model {
	return &model{
		c:        c.Normal(),
		sizes:    make(map[BodyRef]uint32),
		nodes:    make(map[id.NodeID]*mNode),
		sessions: make(map[SessionKey]MsgID),
		sources:  make(map[id.QueueUID]*mSource),
	}
}

func (q *model) apply(m Meta, c Command) (Reply, Effects) {
	q.now = max(q.now, m.Now)
	if q.used == 0 {
		q.used = q.now
	}
	if q.index != m.Index {
		q.index, q.handled = m.Index, 0
	}
	q.reply, q.e = Reply{}, Effects{}
	before := q.live()
	for _, r := range bodiesOf(m, c) {
		before[r] = true
	}
	q.expire()
	q.command(m, c)
	q.assign()
	q.enforce()
	after := q.live()
	for r := range before {
		if !after[r] {
			q.e.Release = append(q.e.Release, r)
		}
	}
	switch c.(type) {
	case *Expire, *Lead:
		q.e.Unused = q.unused() > 0 && q.unused() <= q.now
	}
	q.setTimer()
	return q.reply, q.e
}

// bodiesOf returns the bodies that belong to a command.
func bodiesOf(m Meta, c Command) []BodyRef {
	n := 0
	switch c := c.(type) {
	case *Enqueue:
		n = len(c.Messages)
	case *Transfer:
		n = len(c.DeadLetters)
	case *Transact:
		n = len(c.Outputs)
	case *Requeue:
		if c.HasAnnotations {
			n = 1
		}
	case *Discard:
		if c.HasAnnotations {
			n = 1
		}
	}
	refs := make([]BodyRef, n)
	for i := range refs {
		refs[i] = BodyRef{Index: m.Index, Slot: m.FirstSlot + uint32(i)}
	}
	return refs
}

func (q *model) command(m Meta, c Command) {
	switch c := c.(type) {
	case *Enqueue:
		q.enqueue(m, c)
	case *Transfer:
		q.transfer(m, c)
	case *Checkout:
		q.checkout(c)
	case *Cancel:
		q.cancel(c)
	case *Credit:
		if o := q.find(c.Consumer); o != nil {
			o.Limit = max(o.Limit, c.Limit)
			q.wake(o)
		}
	case *Settle:
		if o := q.find(c.Consumer); o != nil {
			had := len(o.held)
			for _, r := range c.Ranges {
				q.take(o, r)
			}
			q.answerHeld(o, had)
			q.answer(o, c.Ranges)
			q.done(o)
		}
	case *Requeue:
		if o := q.find(c.Consumer); o != nil {
			had, rs := len(o.held), slices.Clone(c.Ranges)
			slices.SortFunc(rs, func(a, b MsgIDRange) int { return cmp.Compare(a.First, b.First) })
			for _, r := range rs {
				for _, h := range q.take(o, r) {
					q.annotate(m, h.m, c.HasAnnotations)
					q.requeue(h.m, c.Failed, c.Delay)
				}
			}
			q.answerHeld(o, had)
			q.answer(o, c.Ranges)
			q.done(o)
			q.dropHead()
		}
	case *Discard:
		if o := q.find(c.Consumer); o != nil {
			had := len(o.held)
			for _, r := range c.Ranges {
				for _, h := range q.take(o, r) {
					q.annotate(m, h.m, c.HasAnnotations)
					h.m.count(c.Failed)
					q.discard(h.m, ReasonRejected)
				}
			}
			q.answerHeld(o, had)
			q.answer(o, c.Ranges)
			q.done(o)
		}
	case *Get:
		q.get(c)
	case *Move:
		q.move(c)
	case *Transact:
		q.transact(m, c)
	case *Purge:
		q.reply.Count = uint64(len(q.ready) + len(q.back) + len(q.delayed) + len(q.backlog))
		q.ready, q.back, q.delayed, q.backlog = nil, nil, nil, nil
	case *Configure:
		single, old := q.c.SingleActive, q.c
		q.c = c.Config.Normal()
		q.c.Rules = max(q.c.Rules, old.Rules)
		q.abandon(old)
		if !q.c.FairPriorities {
			q.level, q.left = 0, 0
		}
		q.expire()
		q.single(single)
		q.consumed = q.c.AutoDelete && (q.consumed || slices.ContainsFunc(q.consumers, q.subscribes))
		q.dropHead()
	case *BacklogSettle:
		q.backlog = slices.DeleteFunc(q.backlog, func(d Discarded) bool {
			return slices.ContainsFunc(c.Ranges, func(r SeqRange) bool { return r.First <= d.Seq && d.Seq <= r.Last })
		})
	case *SessionClosed:
		if n, ok := q.member(c.Session.Node, c.Session.Epoch); ok {
			n.closed = append(n.closed, c.Session.Session)
		}
		q.closeSession(c)
	case *NodeDown:
		q.nodeDown(c)
	case *NodeUp:
		if n := q.nodes[c.Node]; n != nil && c.Epoch >= n.epoch {
			q.raise(c.Node, c.Epoch)
			q.trust(c.Node)
		}
	case *Lead:
		q.lead()
	case *Extend:
		if o := q.find(c.Consumer); o != nil {
			for i := range o.held {
				h := &o.held[i]
				in := slices.ContainsFunc(c.Ranges, func(r MsgIDRange) bool { return r.First <= h.id && h.id <= r.Last })
				if end := quarterAfter(q.now, c.TimeoutMs); in && h.due > 0 && h.due < end {
					h.due = end
					q.reply.Count++
				}
			}
		}
	case *DrainDelete:
		if !q.drainDeleted {
			q.closeSessions(false, func(SessionKey) bool { return true })
			q.drainDeleted = true
		}
	case *Seal:
		q.seal(c)
	case *ForgetSources:
		for _, uid := range c.Sources {
			delete(q.sources, uid)
		}
	case *Renumber:
		q.seq = max(q.seq+lostNumbers, Seq(q.now)*numbersPerMs-1)
	case *Renew:
		if q.sealed() {
			q.reply.Code = CodeDrainDeleting
			return
		}
		q.used = q.now
	case *RetryDelayed:
		for len(q.delayed) > 0 && (c.Limit == 0 || q.reply.Count < c.Limit) {
			q.promote(q.firstDelayed())
			q.reply.Count++
		}
		q.reply.Left = uint64(len(q.delayed))
	}
}

// unused returns when the queue is to be deleted.
func (q *model) unused() Time {
	switch {
	case q.drainDeleted && len(q.live()) == 0:
		return max(q.used, 1)
	case q.drainDeleted:
		return 0
	case slices.ContainsFunc(q.consumers, q.subscribes):
		return 0
	case q.consumed:
		return max(q.used, 1)
	case q.c.ExpiresMs < 0 || q.c.ExpiresIfEmpty && len(q.live()) > 0:
		return 0
	}
	return max(q.used+Time(q.c.ExpiresMs), 1)
}

func (q *model) expiryOf(m *mMessage) Time {
	ttl := m.ttl
	if q.c.MessageTTLMs >= 0 && (ttl < 0 || q.c.MessageTTLMs < ttl) {
		ttl = q.c.MessageTTLMs
	}
	if ttl < 0 || m.fresh {
		return 0
	}
	return m.at + Time(max(ttl, 1))
}

func (q *model) expired(m *mMessage) bool { return q.expiryOf(m) > 0 && q.expiryOf(m) <= q.now }

func (q *model) expire() {
	late := map[SessionKey]bool{}
	for name, n := range q.nodes {
		if n.suspected && n.deadline <= q.now {
			for k := range q.sessions {
				late[k] = late[k] || k.Node == name
			}
			n.suspected, n.deadline = false, 0
		}
	}
	q.sortConsumers()
	for _, c := range q.consumers {
		if late[c.Consumer.SessionKey] {
			q.baseID = max(q.baseID, c.last)
			if c.Consumer.Tag > 0 && !c.cancelled {
				q.e.Notices = append(q.e.Notices, Notice{Consumer: c.Consumer, Kind: NoticeCancelled})
			}
		}
	}
	for k := range late {
		if late[k] {
			q.baseID = max(q.baseID, q.sessions[k])
		}
	}
	q.closeSessions(false, func(k SessionKey) bool { return late[k] })

	q.revoke()
	for q.mayHandle() && q.expireFirst() {
		q.handled++
	}
	q.giveUp()
	q.overfull = q.overfull || q.excess()
}

// mayHandle reports whether the entry has room for one more due message. With the first rules the
// model has no chunks.
func (q *model) mayHandle() bool { return q.c.Rules < RulesThird || q.handled < ExpireSlice }

// expireFirst handles the message that is due first.
func (q *model) expireFirst() bool {
	late, delayed := q.firstExpired(), q.firstDelayed()
	switch {
	case delayed != nil && delayed.due <= q.now && (late == nil || delayed.due < q.expiryOf(late)):
		q.promote(delayed)
	case late != nil:
		q.remove(late)
		q.discard(late, ReasonExpired)
	default:
		return false
	}
	return true
}

// giveUp discards what is left in a queue that is being emptied.
func (q *model) giveUp() {
	for ; q.drainDeleted && q.mayHandle() && len(q.ready)+len(q.back) > 0; q.handled++ {
		q.discard(q.takeNext(), ReasonQueueDeleted)
	}
	for ; q.drainDeleted && q.mayHandle() && len(q.delayed) > 0; q.handled++ {
		m := q.firstDelayed()
		q.remove(m)
		q.discard(m, ReasonQueueDeleted)
	}
}

func (q *model) remove(m *mMessage) {
	same := func(o *mMessage) bool { return o == m }
	q.ready = slices.DeleteFunc(q.ready, same)
	q.back = slices.DeleteFunc(q.back, same)
	q.delayed = slices.DeleteFunc(q.delayed, same)
}

func (q *model) discard(m *mMessage, r Reason) {
	d := Discarded{Body: m.body, Annotations: m.notes, Reason: r, DeliveryCount: m.fails, AcquiredCount: m.acquired, At: q.now}
	mode := q.c.DeadLetter
	if q.drainDeleted && mode == DeadLetterAtMostOnce {
		mode = DeadLetterAtLeastOnce
	}
	switch mode {
	case DeadLetterAtLeastOnce:
		q.seq++
		d.Seq = q.seq
		q.backlog = append(q.backlog, d)
		q.sizes[m.body] = m.size
		q.e.Backlog = true
	case DeadLetterAtMostOnce:
		q.e.Copies = append(q.e.Copies, d)
	case DeadLetterDisabled:
		if r == ReasonDeliveryLimit {
			q.e.Dropped++
		}
	}
}

func (m *mMessage) count(failed bool) {
	m.acquired++
	if failed {
		m.fails++
	}
}

func (q *model) requeue(m *mMessage, failed bool, d Delay) {
	m.count(failed)
	switch {
	case failed && q.c.DeliveryLimit >= 0 && int64(m.fails) > q.c.DeliveryLimit:
		q.discard(m, ReasonDeliveryLimit)
	case q.expired(m):
		q.discard(m, ReasonExpired)
	default:
		if m.due = q.until(m, failed, d); m.due > 0 {
			q.delayed = append(q.delayed, m)
		} else {
			q.putBack(m)
		}
	}
}

func (q *model) annotate(m Meta, msg *mMessage, annotated bool) {
	if annotated {
		msg.notes = BodyRef{Index: m.Index, Slot: m.FirstSlot}
	}
}

// live returns every body that something refers to.
func (q *model) live() map[BodyRef]bool {
	refs := make(map[BodyRef]bool)
	all := q.all()
	for _, c := range q.consumers {
		for _, h := range c.held {
			all = append(all, h.m)
		}
	}
	for _, m := range all {
		refs[m.body], refs[m.notes] = true, true
	}
	for _, d := range q.backlog {
		refs[d.Body], refs[d.Annotations] = true, true
	}
	delete(refs, BodyRef{})
	return refs
}

func (q *model) setTimer() {
	due := Time(0)
	earlier := func(t Time) {
		if t != 0 && (due == 0 || t < due) {
			due = t
		}
	}
	for _, m := range q.all() {
		earlier(q.expiryOf(m))
	}
	for _, m := range q.delayed {
		earlier(m.due)
	}
	for _, n := range q.nodes {
		earlier(n.deadline)
	}
	earlier(q.looks)
	if q.excess() {
		earlier(q.now)
	}
	if q.drainDeleted && len(q.all()) > 0 {
		earlier(q.now)
	}
	switch at := q.unused(); {
	case at == 0 || at > q.now:
		earlier(at)
	case q.e.Unused:
		earlier(q.now + RepeatUnusedMs)
	default:
		earlier(q.now)
	}
	if q.timer == 0 || q.timer <= q.now || due != 0 && due < q.timer {
		q.timer, q.e.Timer = due, due
	}
}
