package quorumq

import (
	"cmp"
	"iter"
	"slices"
)

// session is one of a gateway, with its consumers.
type session struct {
	key       SessionKey
	node      *node
	base      MsgID       // as subscriptions.baseID, for consumers of this session that were cancelled
	consumers []*consumer // ascending by tag
	closed    bool        // on its way out
}

// search returns where a consumer stands in its session.
func (s *session) search(tag uint32) (int, bool) {
	return slices.BinarySearchFunc(s.consumers, tag, func(c *consumer, tag uint32) int {
		return cmp.Compare(c.key.Tag, tag)
	})
}

// sessions are some, ascending by key.
type sessions []*session

// search returns where a session stands.
func (ss sessions) search(k SessionKey) (int, bool) {
	return slices.BinarySearchFunc(ss, k, func(s *session, k SessionKey) int {
		return compareSessions(s.key, k)
	})
}

// consumers yields theirs, in the order of their keys.
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

// consumer is one, with what it holds; so is a session's own of Get (DEL-5), whose tag is 0.
//
// Invariants, see subscriptions.check:
//   - ids of what it holds are at most last; due, unless 0, is no later than the first ack
//     deadline among them;
//   - one that was cancelled holds something, or it would be gone;
//   - it waits in line if canTake says so, and may have lost that since.
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
	waiting                    bool // stands in line
	// standby: another consumer is active, or is to be when this one has settled (SAC-2).
	standby bool
}

// set puts a Checkout's terms in force (CO-3).
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

// subscribes reports whether it is a consumer in the sense of CO-2: neither Get's nor
// cancelled.
func (c *consumer) subscribes() bool { return c.key.Tag != 0 && !c.cancelled }

// canTake reports whether a message may be assigned to it now (DEL-3).
func (c *consumer) canTake() bool {
	return c.subscribes() && !c.standby && len(c.late) == 0 && !c.session.closed && !c.session.node.suspected &&
		(c.autoAck || c.held.live < int(c.prefetch)) &&
		(!c.credit || c.last < c.limit)
}
