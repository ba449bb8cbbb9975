package quorumq

import (
	"cmp"
	"maps"
	"slices"

	"github.com/quorate/quorate/id"
)

func (q *model) enqueue(m Meta, c *Enqueue) {
	n, ok := q.member(c.Enqueuer.Node, c.Enqueuer.Epoch)
	switch {
	case c.First == 0:
		q.reply.Code = CodeMalformed
		return
	case !ok:
		q.reply.Code = CodeFenced
		return
	case c.First > n.next:
		q.reply.Code, q.reply.Next = CodeGap, n.next
		return
	}
	n.refused = slices.DeleteFunc(n.refused, func(s Seq) bool { return s <= c.Answered })
	unit := unit{}
	for i, nm := range c.Messages {
		seq := c.First + Seq(i)
		if unit.left--; unit.left < 0 {
			unit = q.unitOf(c.Messages[i:], seq < n.next)
		}
		switch {
		case seq < n.next:
			if slices.Contains(n.refused, seq) {
				q.reply.Refused = append(q.reply.Refused, seq)
			}
			continue
		case nm.Size != VoidSize && q.sealed():
		case unit.joined && !unit.refused:
			n.next++
			q.store(q.message(bodiesOf(m, c)[i], nm), nm.At, nm.Ms)
			continue
		case nm.Size == VoidSize:
		case unit.refused && q.c.Overflow != OverflowRejectPublishDLX:
		case unit.refused:
			q.discard(q.message(bodiesOf(m, c)[i], nm), ReasonMaxLen)
		case q.refuses() && q.over(1, int64(nm.Size)):
			if q.c.Overflow == OverflowRejectPublishDLX {
				q.discard(q.message(bodiesOf(m, c)[i], nm), ReasonMaxLen)
			}
		default:
			n.next++
			q.store(q.message(bodiesOf(m, c)[i], nm), nm.At, nm.Ms)
			continue
		}
		n.next++
		q.reply.Refused = append(q.reply.Refused, seq)
		n.refused = append(n.refused, seq)
	}
	if len(q.reply.Refused) > 0 && q.sealed() {
		q.reply.Code = CodeDrainDeleting
	}
}

// unitOf finds the unit that begins with the first message, and decides whether it is refused.
func (q *model) unitOf(ms []NewMessage, repeat bool) (u unit) {
	size, void := int64(0), false
	for _, nm := range ms {
		u.left++
		void = void || nm.Size == VoidSize
		size += int64(nm.Size)
		if !nm.Joined {
			break
		}
	}
	if repeat || u.left == 1 {
		return unit{}
	}
	u.joined, u.refused = true, void || q.refuses() && q.over(int64(u.left), size)
	u.left--
	return u
}

func (q *model) message(body BodyRef, nm NewMessage) *mMessage {
	return &mMessage{body: body, size: nm.Size, at: q.now, ttl: nm.TTLMs, level: min(int(nm.Priority), 31), ord: q.ord + 1}
}

func (q *model) store(m *mMessage, at Time, ms int64) {
	q.reply.Stored++
	if q.drainDeleted {
		q.discard(m, ReasonQueueDeleted)
		return
	}
	until := (Delay{At: at, Ms: ms}).until(q.now)
	waited := q.c.Rules >= RulesThird && until == 0 && len(q.ready)+len(q.back) == 0 && !q.overTotal(1) && slices.ContainsFunc(q.line, q.canTake)
	if !waited && !q.refuses() && q.c.MaxLengthBytes >= 0 && int64(m.size) > q.c.MaxLengthBytes {
		q.discard(m, ReasonMaxLen)
		return
	}
	switch until {
	case 0:
		q.ord++
		q.ready = append(q.ready, m)
	default:
		m.fresh, m.due = true, until
		q.delayed = append(q.delayed, m)
	}
	q.granted = true
	q.dropHead()
	q.assign()
	q.enforce()
	q.granted = false
}

// sealed reports whether nothing more may come.
func (q *model) sealed() bool {
	return q.drainDeleted && q.c.Rules >= RulesSeventh && len(q.live()) == 0
}

// seal is what a queue does that is empty or has expired once its deletion is decided.
func (q *model) seal(c *Seal) {
	if !q.sealed() {
		at, used := q.unused(), slices.ContainsFunc(q.consumers, q.subscribes)
		if c.IfUnused && used || c.IfExpired && (at == 0 || at > q.now) || !c.IfExpired && len(q.live()) > 0 {
			return
		}
		q.c.Rules, q.drainDeleted = RulesSeventh, true
		q.closeSessions(false, func(SessionKey) bool { return true })
		q.ready, q.back, q.delayed, q.backlog = nil, nil, nil, nil
	}
	q.reply.Count = 1
}

// move takes the messages at the places of the command.
func (q *model) move(c *Move) {
	to := c.To
	known := slices.ContainsFunc(q.backlog, func(d Discarded) bool { return d.To != nil && *d.To == to })
	others := map[Destination]bool{}
	for _, d := range q.backlog {
		if d.To != nil {
			others[*d.To] = true
		}
	}
	if to.Kind != ToNowhere && !known && len(others) == MaxDestinations {
		q.reply.Code = CodeTooMany
		return
	}
	for _, p := range c.Places {
		for _, m := range append(slices.Clone(q.ready), q.back...) {
			if p != (Place{Order: uint64(m.ord<<5 | m.level), Return: m.number}) {
				continue
			}
			q.remove(m)
			q.reply.Count++
			if to.Kind == ToNowhere {
				continue
			}
			q.seq++
			q.backlog = append(q.backlog, Discarded{
				Seq: q.seq, Body: m.body, Annotations: m.notes, DeliveryCount: m.fails, AcquiredCount: m.acquired, At: q.now, To: &to,
			})
			q.sizes[m.body] = m.size
			q.e.Backlog = true
		}
	}
}

func (q *model) transfer(m Meta, c *Transfer) {
	s := q.sources[c.Source]
	if s == nil {
		s = &mSource{stored: make(map[Seq]bool)}
		q.sources[c.Source] = s
	}
	s.settled = max(s.settled, c.Settled)
	left := -1
	for i, l := range c.DeadLetters {
		switch {
		case l.Seq <= s.settled || s.stored[l.Seq]:
		case q.sealed(), q.refuses() && q.over(1, int64(l.Size)) && !q.replaces(c.Source, s, l.Seq, &left):
			q.reply.Refused = append(q.reply.Refused, l.Seq)
		default:
			s.stored[l.Seq] = true
			q.store(q.message(bodiesOf(m, c)[i], l.NewMessage), 0, 0)
		}
	}
	slices.Sort(q.reply.Refused)
}

// replaces reports whether a dead letter takes the place of one that this queue has, and counts; left is how many more of a
// command may, below 0 before the first.
func (q *model) replaces(source id.QueueUID, s *mSource, seq Seq, left *int) bool {
	waits := slices.ContainsFunc(q.backlog, func(d Discarded) bool { return d.Seq == seq })
	if source != randomUID || q.c.Rules < RulesSeventh || q.apart() || !waits {
		return false
	}
	if *left < 0 {
		*left = maxReplacing
		for _, d := range q.backlog {
			if s.stored[d.Seq] {
				*left = max(*left-1, 0)
			}
		}
	}
	if *left == 0 {
		return false
	}
	*left--
	return true
}

func (q *model) member(name id.NodeID, epoch id.Epoch) (*mNode, bool) {
	if q.nodes[name] == nil {
		q.nodes[name] = &mNode{epoch: epoch, next: 1}
	}
	q.raise(name, epoch)
	n := q.nodes[name]
	return n, n.epoch == epoch
}

// isClosed looks at the last few closed sessions; a repeat counts as the first close.
func (n *mNode) isClosed(session uint64) bool {
	var all []uint64
	for _, s := range n.closed {
		if !slices.Contains(all[max(0, len(all)-MaxClosedSessions):], s) {
			all = append(all, s)
		}
	}
	return slices.Contains(all[max(0, len(all)-MaxClosedSessions):], session)
}

func (q *model) raise(name id.NodeID, epoch id.Epoch) {
	if n := q.nodes[name]; epoch > n.epoch {
		*n = mNode{epoch: epoch, next: 1}
		q.closeSessions(true, func(k SessionKey) bool { return k.Node == name })
	}
}

func (q *model) trust(name id.NodeID) {
	n := q.nodes[name]
	if !n.suspected {
		return
	}
	n.suspected, n.deadline = false, 0
	q.sortConsumers()
	for _, c := range q.consumers {
		if c.Consumer.Node == name {
			q.wake(c)
		}
	}
	q.elect()
}

func (q *model) nodeDown(c *NodeDown) {
	n := q.nodes[c.Node]
	if n == nil || c.Epoch < n.epoch {
		return
	}
	q.raise(c.Node, c.Epoch)
	for k := range q.sessions {
		if k.Node == c.Node && !n.suspected {
			n.suspected = true
			n.deadline = max(q.now+Time(q.c.DisconnectedTimeoutMs), 1)
		}
	}
	q.elect()
	q.expire()
}

func (q *model) find(k ConsumerKey) *mConsumer {
	for _, c := range q.consumers {
		if c.Consumer == k {
			return c
		}
	}
	q.reply.Code = CodeUnknownConsumer
	return nil
}

func (q *model) register(k ConsumerKey) *mConsumer {
	base := q.sessions[k.SessionKey]
	q.sessions[k.SessionKey] = base
	c := q.find(k)
	q.reply.Code = CodeOK
	if c == nil {
		c = &mConsumer{last: max(base, q.baseID)}
		c.Consumer = k
		q.consumers = append(q.consumers, c)
	}
	return c
}

func (q *model) checkout(c *Checkout) {
	n, ok := q.member(c.Consumer.Node, c.Consumer.Epoch)
	if !ok {
		q.reply.Code = CodeFenced
		return
	}
	if n.isClosed(c.Consumer.Session) {
		q.reply.Code = CodeUnknownConsumer
		return
	}
	if q.drainDeleted {
		q.reply.Code = CodeDrainDeleting
		return
	}
	q.trust(c.Consumer.Node)
	for _, o := range q.consumers {
		if o.Consumer.Tag > 0 && !o.cancelled && o.Consumer != c.Consumer && (o.Exclusive || c.Exclusive) {
			q.reply.Code = CodeExclusive
			return
		}
	}
	o := q.register(c.Consumer)
	q.leave(o)
	if o.joined == 0 {
		q.joined++
		o.joined = q.joined
	}
	o.Checkout, o.cancelled = *c, false
	q.consumed = q.c.AutoDelete
	q.reply.LastMsgID = o.last
	was := q.active == o
	q.elect()
	if q.c.SingleActive && was == (q.active == o) {
		q.notify(o)
	}
	q.wake(o)
}

func (q *model) leave(c *mConsumer) {
	q.line = slices.DeleteFunc(q.line, func(o *mConsumer) bool { return o == c })
}

func (q *model) canTake(c *mConsumer) bool {
	prefetch := int(c.Prefetch)
	if prefetch == 0 || prefetch > MaxOutstanding {
		prefetch = MaxOutstanding
	}
	if q.c.SingleActive && (c != q.active || q.best() != nil && q.best() != c) {
		return false
	}
	return c.Consumer.Tag > 0 && !c.cancelled && len(c.late) == 0 && !q.nodes[c.Consumer.Node].suspected &&
		(c.AutoAck || len(c.held) < prefetch) && (!c.Credit || c.last < c.Limit)
}

func (q *model) wake(c *mConsumer) {
	if !slices.Contains(q.line, c) && q.canTake(c) {
		q.line = append(q.line, c)
	}
}

// assign gives each message to the first consumer in line among those of the highest priority. A
// consumer that cannot take one when it is its turn leaves the line.
func (q *model) assign() {
	for {
		m := q.next()
		if m == nil || q.expired(m) {
			return
		}
		var taker *mConsumer
		byPriority := slices.Clone(q.line)
		slices.SortStableFunc(byPriority, func(a, b *mConsumer) int { return cmp.Compare(b.Priority, a.Priority) })
		for _, c := range byPriority {
			q.leave(c)
			if q.canTake(c) {
				taker = c
				break
			}
		}
		if taker == nil {
			return
		}
		q.e.Deliver = append(q.e.Deliver, q.give(taker, q.takeNext()))
		q.wake(taker)
	}
}

func (q *model) give(c *mConsumer, m *mMessage) Delivery {
	c.last++
	q.turn++
	if !c.AutoAck {
		ms := q.c.ConsumerTimeoutMs
		if c.HasTimeout {
			ms = c.TimeoutMs
		}
		h := mHeld{id: c.last, turn: q.turn, m: m}
		if ms > 0 && c.Consumer.Tag > 0 {
			h.due = quarterAfter(q.now, ms)
			c.looks, q.looks = sooner(c.looks, h.due), sooner(q.looks, h.due)
		}
		c.held = append(c.held, h)
	}
	return m.delivery(c.Consumer, c.last)
}

func (m *mMessage) delivery(k ConsumerKey, id MsgID) Delivery {
	return Delivery{Consumer: k, MsgID: id, Body: m.body, Annotations: m.notes, DeliveryCount: m.fails, AcquiredCount: m.acquired}
}

func (q *model) get(c *Get) {
	n, ok := q.member(c.Session.Node, c.Session.Epoch)
	if !ok {
		q.reply.Code = CodeFenced
		return
	}
	if n.isClosed(c.Session.Session) {
		q.reply.Code = CodeUnknownConsumer
		return
	}
	if q.drainDeleted {
		q.reply.Code = CodeDrainDeleting
		return
	}
	q.trust(c.Session.Node)
	q.used = q.now
	if q.c.SingleActive {
		q.reply.Code = CodeSingleActive
		return
	}
	for m := q.next(); q.c.Rules >= RulesThird && m != nil && q.expired(m) && q.handled < ExpireChunk; m = q.next() {
		q.expireFirst()
		q.handled++
	}
	if m := q.next(); m != nil && !q.expired(m) {
		o := q.register(ConsumerKey{SessionKey: c.Session})
		o.AutoAck, o.cancelled = c.AutoAck, false
		d := q.give(o, q.takeNext())
		q.reply.Delivery = &d
	}
	q.reply.Count = uint64(len(q.ready) + len(q.back))
}

func (q *model) cancel(c *Cancel) {
	o := q.find(c.Consumer)
	if o == nil {
		return
	}
	if q.subscribes(o) {
		q.used = q.now
	}
	o.cancelled, o.Exclusive, o.joined, o.late = true, false, 0, nil
	if q.active == o {
		q.active = nil
	}
	q.leave(o)
	if c.Requeue {
		for _, h := range q.take(o, MsgIDRange{First: 1, Last: o.last}) {
			q.requeue(h.m, false, Delay{})
		}
		q.dropHead()
	}
	q.done(o)
	q.elect()
}

// take removes a range from what the consumer holds.
func (q *model) take(c *mConsumer, r MsgIDRange) []mHeld {
	var taken []mHeld
	c.held = slices.DeleteFunc(c.held, func(h mHeld) bool {
		in := r.First <= h.id && h.id <= r.Last
		if in {
			taken = append(taken, h)
		}
		return in
	})
	return taken
}

// answerHeld answers a decision that took nothing from its consumer.
func (q *model) answerHeld(c *mConsumer, had int) {
	if len(c.held) == had {
		q.reply.Code = CodeNotHeld
	}
}

func (q *model) done(c *mConsumer) {
	if len(c.held) > 0 || !c.cancelled {
		q.wake(c)
		if c == q.active {
			q.elect()
		}
		return
	}
	k := c.Consumer.SessionKey
	q.sessions[k] = max(q.sessions[k], c.last)
	q.leave(c)
	q.consumers = slices.DeleteFunc(q.consumers, func(o *mConsumer) bool { return o == c })
}

func (q *model) closeSessions(failed bool, which func(SessionKey) bool) {
	q.endSessions(which, func(mHeld) bool { return failed })
}

// closeSession fails what a session holds, except what was never sent to its client.
func (q *model) closeSession(c *SessionClosed) {
	never := make(map[*mMessage]bool)
	for _, o := range q.consumers {
		if o.Consumer.SessionKey != c.Session || o.Consumer.Tag != c.Unsent.Tag {
			continue
		}
		for _, h := range o.held {
			for _, r := range c.Unsent.Ranges {
				never[h.m] = never[h.m] || r.First <= h.id && h.id <= r.Last
			}
		}
	}
	q.endSessions(func(k SessionKey) bool { return k == c.Session }, func(h mHeld) bool { return !never[h.m] })
}

func (q *model) endSessions(which func(SessionKey) bool, failed func(mHeld) bool) {
	var held []mHeld
	gone := func(c *mConsumer) bool { return which(c.Consumer.SessionKey) }
	for _, c := range q.consumers {
		if gone(c) && q.subscribes(c) {
			q.used = q.now
		}
		if gone(c) {
			held = append(held, c.held...)
		}
	}
	q.consumers = slices.DeleteFunc(q.consumers, gone)
	q.line = slices.DeleteFunc(q.line, gone)
	before := len(q.sessions)
	maps.DeleteFunc(q.sessions, func(k SessionKey, _ MsgID) bool { return which(k) })
	if len(q.sessions) == before {
		return
	}
	slices.SortFunc(held, func(a, b mHeld) int { return cmp.Compare(a.turn, b.turn) })
	for _, h := range held {
		q.requeue(h.m, failed(h), Delay{})
	}
	if q.active != nil && gone(q.active) {
		q.active = nil
	}
	q.elect()
	q.dropHead()
}

func (q *model) lead() {
	q.timer = 0
	earlier := q.e.Notices
	q.e.Notices = nil
	q.e.Backlog = q.e.Backlog || len(q.backlog) > 0
	lowest := make(map[SessionKey]ConsumerKey)
	for k := range q.sessions {
		lowest[k] = ConsumerKey{SessionKey: k, Tag: 1 << 31}
	}
	for _, c := range q.consumers {
		if k := c.Consumer.SessionKey; c.Consumer.Tag < lowest[k].Tag {
			lowest[k] = c.Consumer
		}
	}
	for _, k := range lowest {
		if k.Tag == 1<<31 {
			k.Tag = 0
		}
		q.e.Notices = append(q.e.Notices, Notice{Consumer: k, Kind: NoticeLeader})
	}
	slices.SortFunc(q.e.Notices, func(a, b Notice) int {
		return cmp.Or(compareSessions(a.Consumer.SessionKey, b.Consumer.SessionKey), cmp.Compare(a.Consumer.Tag, b.Consumer.Tag))
	})
	q.e.Notices = append(earlier, q.e.Notices...)
	q.sortConsumers()
	for _, c := range q.consumers {
		if q.c.SingleActive && q.subscribes(c) {
			q.notify(c)
		}
	}
}

func (q *model) subscribes(c *mConsumer) bool { return c.Consumer.Tag > 0 && !c.cancelled }

// notify notifies a consumer whether it is the active one.
func (q *model) notify(c *mConsumer) {
	kind := NoticeWaiting
	if c == q.active {
		kind = NoticeActive
	}
	q.e.Notices = append(q.e.Notices, Notice{Consumer: c.Consumer, Kind: kind})
}

// best returns the consumer that should be active: the first in the order of preference of those
// that can be.
func (q *model) best() *mConsumer {
	able := slices.DeleteFunc(slices.Clone(q.consumers), func(c *mConsumer) bool {
		return !q.subscribes(c) || len(c.late) > 0 || q.nodes[c.Consumer.Node].suspected
	})
	slices.SortFunc(able, func(a, b *mConsumer) int {
		later := func(c *mConsumer) int {
			if c == q.active {
				return 0
			}
			return c.joined
		}
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(later(a), later(b)))
	})
	if len(able) == 0 {
		return nil
	}
	return able[0]
}

// quarterAfter is the ack deadline of a delivery: a full quarter of a second.
func quarterAfter(now Time, ms int64) Time { return (now + Time(ms) + 249) / 250 * 250 }

// sooner is the earlier of two times; 0 is no time.
func sooner(a, b Time) Time {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// revoke takes back what is due. The queue, and each consumer, checks again at the earliest ack
// deadline of the last check, or at an earlier one that began since.
func (q *model) revoke() {
	if q.looks == 0 || q.looks > q.now {
		return
	}
	q.looks = 0
	q.sortConsumers()
	var back []mHeld
	for _, c := range slices.Clone(q.consumers) {
		if c.looks > 0 && c.looks <= q.now {
			c.looks = 0
			var last *Notice
			var kept []mHeld
			for _, h := range c.held {
				if h.due == 0 || h.due > q.now {
					kept = append(kept, h)
					c.looks = sooner(c.looks, h.due)
					continue
				}
				back = append(back, h)
				if !c.cancelled {
					c.late = append(c.late, h.id)
				}
				if last != nil && last.Messages.Last+1 == h.id {
					last.Messages.Last++
					continue
				}
				q.e.Notices = append(q.e.Notices, Notice{Consumer: c.Consumer, Kind: NoticeRevoked, Messages: MsgIDRange{h.id, h.id}})
				last = &q.e.Notices[len(q.e.Notices)-1]
			}
			c.held = kept
		}
		q.looks = sooner(q.looks, c.looks)
		if c.cancelled && len(c.held) == 0 {
			q.done(c)
		}
	}
	slices.SortFunc(back, func(a, b mHeld) int { return cmp.Compare(a.turn, b.turn) })
	for _, h := range back {
		q.requeue(h.m, false, Delay{})
	}
	if len(back) > 0 {
		q.elect()
		q.dropHead()
	}
}

// answer removes the messages that a consumer was late with and has now decided about.
func (q *model) answer(c *mConsumer, ranges []MsgIDRange) {
	if len(c.late) == 0 {
		return
	}
	c.late = slices.DeleteFunc(c.late, func(m MsgID) bool {
		return slices.ContainsFunc(ranges, func(r MsgIDRange) bool { return r.First <= m && m <= r.Last })
	})
	if len(c.late) == 0 {
		q.wake(c)
		q.elect()
	}
}

func (q *model) elect() {
	best := q.best()
	if !q.c.SingleActive || best == nil {
		return
	}
	if best != q.active {
		if was := q.active; was != nil {
			q.leave(was)
			if len(was.held) > 0 {
				return
			}
			q.active = nil
			q.notify(was)
		}
		q.active = best
		q.notify(best)
	}
	q.wake(best)
}

// single follows a change between one active consumer at a time and all. Those present then count
// as registered in the order of their keys.
func (q *model) single(was bool) {
	if was == q.c.SingleActive {
		return
	}
	before := q.active
	q.active = nil
	q.sortConsumers()
	for i, c := range q.consumers {
		if !q.subscribes(c) {
			continue
		}
		c.joined = i + 1
		q.joined = max(q.joined, i+1)
		if was {
			q.wake(c)
			if c != before {
				q.e.Notices = append(q.e.Notices, Notice{Consumer: c.Consumer, Kind: NoticeActive})
			}
			continue
		}
		q.leave(c)
		q.notify(c)
	}
	q.elect()
}

func (q *model) sortConsumers() {
	slices.SortFunc(q.consumers, func(a, b *mConsumer) int {
		return cmp.Or(compareSessions(a.Consumer.SessionKey, b.Consumer.SessionKey), cmp.Compare(a.Consumer.Tag, b.Consumer.Tag))
	})
}
