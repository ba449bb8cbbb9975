package quorumq

import (
	"cmp"
	"iter"
	"slices"
)

// session is a gateway's session, with its consumers.
type session struct {
	key       SessionKey
	node      *node
	base      MsgID       // like subscriptions.baseID, for cancelled consumers of this session
	consumers []*consumer // ascending by tag
	closed    bool        // it is being closed
}

// search returns the position of a consumer in its session.
func (s *session) search(tag uint32) (int, bool) {
	return slices.BinarySearchFunc(s.consumers, tag, func(c *consumer, tag uint32) int {
		return cmp.Compare(c.key.Tag, tag)
	})
}

// sessions is a list of sessions, ascending by key.
type sessions []*session

// search returns the position of a session.
func (ss sessions) search(k SessionKey) (int, bool) {
	return slices.BinarySearchFunc(ss, k, func(s *session, k SessionKey) int {
		return compareSessions(s.key, k)
	})
}

// consumers yields the consumers of all sessions, in the order of their keys.
func (ss sessions) consumers() iter.Seq[*consumer] {
	return func(yield func(*consumer) bool) {
		for _, s := range ss {
			for _, c := range s.consumers {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// consumer is a consumer with the messages that it holds. The consumer with tag 0 is the session's
// own, for Get (DEL-5).
//
// Invariants, see subscriptions.check:
//   - the ids of the messages that it holds are at most last; due, unless 0, is no later than their
//     first ack deadline;
//   - a cancelled consumer holds something; otherwise it would have been removed;
//   - it waits in line if canTake is true; canTake may have become false since.
type consumer struct {
	key      ConsumerKey
	session  *session
	prefetch uint32 // as in force: 1 to MaxOutstanding
	priority int32
	limit    MsgID // with credit
	last     MsgID // newest id assigned
	held     window
	due      Time    // nothing that it holds is due earlier (CT-1); 0: nothing has a deadline
	late     []MsgID // deliveries that timed out and are not decided, ascending (CT-2)
	// timeout is the consumer's own timeout in milliseconds, if ownTimeout.
	timeout int64
	since   uint64 // order of registration, in a queue with a single active consumer

	credit, autoAck, exclusive bool
	ownTimeout                 bool
	cancelled                  bool // gets nothing more, but still holds messages (CO-3)
	waiting                    bool // is in line
	// standby: another consumer is active, or will be when this one has settled (SAC-2).
	standby bool
}

// set puts the settings of a Checkout in force (CO-3).
func (c *consumer) set(to *Checkout) {
	c.cancelled = false
	c.prefetch = to.Prefetch
	if to.Prefetch == 0 || to.Prefetch > MaxOutstanding {
		c.prefetch = MaxOutstanding
	}
	c.credit, c.limit = to.Credit, to.Limit
	c.autoAck, c.priority = to.AutoAck, to.Priority
	c.ownTimeout, c.timeout = to.HasTimeout, to.TimeoutMs
}

// subscribes reports whether this is a consumer in the sense of CO-2: not that of Get, and not
// cancelled.
func (c *consumer) subscribes() bool { return c.key.Tag != 0 && !c.cancelled }

// canTake reports whether a message may be assigned to the consumer now (DEL-3).
func (c *consumer) canTake() bool {
	return c.subscribes() && !c.standby && len(c.late) == 0 && !c.session.closed && !c.session.node.suspected &&
		(c.autoAck || c.held.live < int(c.prefetch)) &&
		(!c.credit || c.last < c.limit)
}
