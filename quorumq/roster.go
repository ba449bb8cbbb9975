package quorumq

import (
	"cmp"
	"iter"
	"slices"

	"github.com/quorate/quorate/id"
)

// roster is who takes part: nodes with their enqueuers, sessions and consumers.
type roster struct {
	nodes    map[id.NodeID]*node
	sessions map[SessionKey]*session
	order    []*session // ascending by key
	waiting  []turns    // by consumer priority, highest first
	// exclusive is the consumer that bars others (CO-2), nil if there is none.
	exclusive *consumer
	// active is the one consumer that receives, with Config.SingleActive; nil if there is
	// none.
	active *consumer
	// leaseDue: nothing that consumers hold is due before (CT-1); 0: nothing will be.
	leaseDue Time
	turn     uint64 // number of the next assignment, over all consumers
	// baseID is the newest MsgID of all consumers whose sessions were timed out (DC-1):
	// such a session may come back, and its consumers number on from there, so that a
	// late repeat of an old Settle never hits a new message.
	baseID MsgID

	suspects       int // nodes under suspicion
	unsettled      int
	unsettledBytes uint64
}

// node is a node that has enqueued or consumed here; it stays, to fence its past.
type node struct {
	id    id.NodeID
	epoch id.Epoch
	enqueuer
	// closed are sessions of this epoch that were closed, in that order: a Checkout or Get
	// that comes late does not open them again.
	closed    []uint64
	suspected bool
	deadline  Time // when a suspected node's sessions end (DC-1)
}

// MaxClosedSessions bounds the closed sessions that are remembered per node; the one
// closed first is forgotten.
const MaxClosedSessions = 128

// close remembers that a session was closed.
func (n *node) close(session uint64) {
	if slices.Contains(n.closed, session) {
		return
	}
	if len(n.closed) == MaxClosedSessions {
		n.closed = slices.Delete(n.closed, 0, 1)
	}
	n.closed = append(n.closed, session)
}

type session struct {
	key       SessionKey
	node      *node
	base      MsgID       // as baseID, for consumers of this session that were cancelled
	consumers []*consumer // ascending by tag
	closed    bool        // on its way out
}

type consumer struct {
	key      ConsumerKey
	session  *session
	prefetch uint32 // as in force: 1 to MaxOutstanding
	priority int32
	limit    MsgID // with credit
	last     MsgID // newest id assigned
	held     window
	due      Time    // none of what it holds is due before (CT-1); 0: nothing will be
	late     []MsgID // what timed out and is not answered for, ascending (CT-2)
	// timeout is the consumer's own, in milliseconds, if ownTimeout.
	timeout int64
	since   uint64 // order of registration among those of a queue with a single active consumer

	credit, autoAck, exclusive bool
	ownTimeout                 bool
	cancelled                  bool // takes nothing more, still holds messages (CO-3)
	waiting                    bool // stands in turns
	// standby: another consumer is active, or is to be when this one has settled (SAC-2).
	standby bool
}

// subscribes tells whether it is a consumer in the sense of CO-2: neither Get's nor
// cancelled.
func (c *consumer) subscribes() bool { return c.key.Tag != 0 && !c.cancelled }

// canTake tells whether a message may be assigned to it now (DEL-3).
func (c *consumer) canTake() bool {
	return c.subscribes() && !c.standby && len(c.late) == 0 && !c.session.closed && !c.session.node.suspected &&
		(c.autoAck || c.held.live < int(c.prefetch)) &&
		(!c.credit || c.last < c.limit)
}

// member returns the node if this epoch of it may speak: false if a newer one has. A
// newer epoch than the known one closes the sessions of those before it: that process
// is gone (DC-1).
func (q *Queue) member(name id.NodeID, epoch id.Epoch) (*node, bool) {
	n := q.nodes[name]
	if n == nil {
		n = &node{id: name, epoch: epoch, enqueuer: enqueuer{next: 1}}
		q.nodes[name] = n
		return n, true
	}
	if epoch > n.epoch {
		q.raise(n, epoch)
	}
	return n, epoch == n.epoch
}

// raise puts a node's newer epoch in place of the one before.
func (q *Queue) raise(n *node, epoch id.Epoch) {
	if n.suspected { // no trust: its sessions must not take turns once more
		n.suspected, n.deadline = false, 0
		q.suspects--
	}
	n.epoch, n.enqueuer, n.closed = epoch, enqueuer{next: 1}, nil
	q.closeSessions(true, q.sessionsOf(func(o *node) bool { return o == n }), Unsent{})
}

// trust ends a suspicion.
func (q *Queue) trust(n *node) {
	if !n.suspected {
		return
	}
	n.suspected, n.deadline = false, 0
	q.suspects--
	for _, s := range q.order {
		if s.node == n {
			for _, c := range s.consumers {
				q.wake(c)
			}
		}
	}
	q.elect()
}

// consumer returns the consumer with this key, nil if there is none.
func (q *Queue) consumer(k ConsumerKey) *consumer {
	s := q.sessions[k.SessionKey]
	if s == nil {
		return nil
	}
	if i, ok := s.search(k.Tag); ok {
		return s.consumers[i]
	}
	return nil
}

// searchOrder returns where a session stands in order.
func (q *Queue) searchOrder(k SessionKey) (int, bool) {
	return slices.BinarySearchFunc(q.order, k, func(s *session, k SessionKey) int {
		return compareSessions(s.key, k)
	})
}

func (s *session) search(tag uint32) (int, bool) {
	return slices.BinarySearchFunc(s.consumers, tag, func(c *consumer, tag uint32) int {
		return cmp.Compare(c.key.Tag, tag)
	})
}

// register returns the consumer with this key; it is made if it is not there.
func (q *Queue) register(n *node, k ConsumerKey) *consumer {
	s := q.sessions[k.SessionKey]
	if s == nil {
		s = &session{key: k.SessionKey, node: n}
		q.sessions[k.SessionKey] = s
		i, _ := q.searchOrder(k.SessionKey)
		q.order = slices.Insert(q.order, i, s)
	}
	i, ok := s.search(k.Tag)
	if !ok {
		c := &consumer{key: k, session: s, last: max(q.baseID, s.base), prefetch: MaxOutstanding}
		s.consumers = slices.Insert(s.consumers, i, c)
	}
	return s.consumers[i]
}

// dismiss removes a consumer that holds nothing any more; its session stays.
func (q *Queue) dismiss(c *consumer) {
	s := c.session
	s.base = max(s.base, c.last)
	q.leaveLine(c)
	i, _ := s.search(c.key.Tag)
	s.consumers = slices.Delete(s.consumers, i, i+1)
}

// sessionsOf returns the sessions that which chooses, in order.
func (q *Queue) sessionsOf(which func(*node) bool) []*session {
	q.closing = q.closing[:0]
	for _, s := range q.order {
		if which(s.node) {
			q.closing = append(q.closing, s)
		}
	}
	return q.closing
}

// closeSessions ends sessions. Their messages go back in the order in which they were
// delivered, over all of them (DEL-8, DL-11); what is unsent goes with them, not failed.
func (q *Queue) closeSessions(failed bool, ss []*session, unsent Unsent) {
	if len(ss) == 0 {
		return
	}
	q.moved = q.moved[:0]
	for _, s := range ss {
		s.closed = true
		delete(q.sessions, s.key)
		for _, c := range s.consumers {
			if c.subscribes() {
				q.used = q.now
			}
			q.setExclusive(c, false)
			q.resign(c)
			for a := range c.held.all() {
				q.moved = append(q.moved, leaving{assigned: *a, unsent: unsent.has(c, a.id)})
			}
		}
	}
	if len(ss) == 1 {
		for _, c := range ss[0].consumers {
			q.leaveLine(c)
		}
		i, _ := q.searchOrder(ss[0].key)
		q.order = slices.Delete(q.order, i, i+1)
	} else {
		q.sweepTurns()
		q.order = slices.DeleteFunc(q.order, func(s *session) bool { return s.closed })
	}
	clear(q.closing)
	q.giveBackMoved(failed)
}

// giveBackMoved gives what was taken from consumers, into moved, back in the order in which
// it was delivered, over all of them; the queue then has another order of consumers too.
func (q *Queue) giveBackMoved(failed bool) {
	slices.SortFunc(q.moved, func(a, b leaving) int { return cmp.Compare(a.turn, b.turn) })
	for i := range q.moved {
		l := &q.moved[i]
		q.unassign(&l.held)
		q.giveBack(&l.held, failed && !l.unsent, Delay{})
	}
	q.moved = q.moved[:0]
	q.elect()
	q.dropHead()
}

// unassign accounts for a message that its consumer no longer holds.
func (q *Queue) unassign(h *held) {
	q.unsettled--
	q.unsettledBytes -= uint64(h.size)
}

// Consumes tells whether a session is that of a consumer; another one is of gets.
func (q *Queue) Consumes(k SessionKey) bool {
	s := q.sessions[k]
	return s != nil && slices.ContainsFunc(s.consumers, func(c *consumer) bool { return c.key.Tag != 0 })
}

// Sessions yields the sessions known to the queue, ascending by key.
func (q *Queue) Sessions() iter.Seq[SessionKey] {
	return func(yield func(SessionKey) bool) {
		for _, s := range q.order {
			if !yield(s.key) {
				return
			}
		}
	}
}
