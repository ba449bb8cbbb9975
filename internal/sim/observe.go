package sim

import (
	"slices"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/quorumq"
)

// countEvery is how many commands pass between comparisons of all counts.
const countEvery = 32

// observe follows one committed command.
func (l *ledger) observe(index uint64, e *entry, c quorumq.Command, r quorumq.Reply, eff quorumq.Effects) {
	l.now, l.index = max(l.now, e.now), index
	l.fresh = l.fresh[:0]
	l.ttl[0] = l.ttl[1]
	l.before = l.config
	l.use.begin(l.now)
	l.comeDue()
	l.timeOut()
	l.timeOutDeliveries()
	if down, is := c.(*quorumq.NodeDown); is {
		l.down(down)
	}
	l.deadlines.checkNotices(l, eff.Notices)
	for _, n := range eff.Notices {
		if n.Kind == quorumq.NoticeCancelled && l.sessions[n.Consumer.SessionKey] {
			l.broke("DC-1", "consumer %v is cancelled before its time", n.Consumer)
		}
	}
	l.taken = 0
	if _, is := c.(*quorumq.Move); is {
		l.moves++
	}
	l.command(index, c, &r)
	for i := range eff.Deliver {
		l.delivered(&eff.Deliver[i])
	}
	if eff.Backlog {
		l.backlogNews()
	}
	for i := range eff.Copies {
		l.discarded(&eff.Copies[i], handedOn)
	}
	for _, ref := range eff.Release {
		l.releasedBody(ref, index, c)
	}
	l.releasedNotes()
	l.settleFresh()
	l.judgeOrder()
	l.operated(c, &r)
	l.judgeTransact(c, &r)
	if eff.Unused {
		l.judgeUnused()
	}
	if index%countEvery == 0 {
		l.compareCounts()
	}
}

// command records what an applied command means according to the rules, not to the machine's code.
func (l *ledger) command(index uint64, c quorumq.Command, r *quorumq.Reply) {
	switch c := c.(type) {
	case *quorumq.Enqueue:
		l.enqueued(index, c, r)
	case *quorumq.Transfer:
		l.transferred(index, c, r)
	case *quorumq.Checkout:
		if l.opens(c.Consumer.SessionKey, r.Code) {
			l.sessions[c.Consumer.SessionKey] = true
			l.auto[c.Consumer] = c.AutoAck
			l.deadlines.opened(c)
			l.use.subscribed[c.Consumer] = true
			if c.Credit {
				l.limit[c.Consumer] = c.Limit
			}
		}
	case *quorumq.Get:
		if r.Code == quorumq.CodeOK || r.Code == quorumq.CodeSingleActive {
			l.use.at = l.now
		}
		if r.Code == quorumq.CodeSingleActive { // its node was active nevertheless
			l.opens(c.Session, quorumq.CodeOK)
		} else if l.opens(c.Session, r.Code) && r.Delivery != nil {
			l.sessions[c.Session] = true
			l.delivered(r.Delivery)
		}
	case *quorumq.Settle:
		l.outcome(c.Consumer, c.Ranges, r, l.settled)
	case *quorumq.Credit:
		if r.Code == quorumq.CodeOK {
			l.limit[c.Consumer] = max(l.limit[c.Consumer], c.Limit)
		}
	case *quorumq.Cancel:
		if r.Code == quorumq.CodeOK {
			l.use.left(c.Consumer, l.now)
			delete(l.deadlines.late, c.Consumer)
		}
		if r.Code == quorumq.CodeOK && c.Requeue {
			l.end(func(k quorumq.ConsumerKey) bool { return k == c.Consumer }, false)
		}
	case *quorumq.Transact:
		l.transacted(index, c, r)
	case *quorumq.Requeue:
		l.outcome(c.Consumer, c.Ranges, r, func(h *copied) {
			l.noted(h, c.HasAnnotations, index)
			l.back(h, c.Failed)
			if until := l.until(c.Delay); until > 0 {
				l.holdBack(h, until)
			}
		})
	case *quorumq.Discard:
		l.outcome(c.Consumer, c.Ranges, r, func(h *copied) {
			l.noted(h, c.HasAnnotations, index)
			l.back(h, c.Failed)
			h.rejected, h.due = true, 0
			l.fresh = append(l.fresh, h)
		})
	case *quorumq.SessionClosed:
		if c.Session.Epoch >= l.epochs[c.Session.Node] {
			l.speaks(c.Session.Node, c.Session.Epoch)
		}
		l.cameBack(c)
		l.endSessions(func(k quorumq.SessionKey) bool { return k == c.Session }, true)
	case *quorumq.NodeUp:
		l.raised(c.Node, c.Epoch)
		if c.Epoch >= l.epochs[c.Node] {
			delete(l.suspected, c.Node)
		}
	case *quorumq.Configure:
		l.configured(c)
	case *quorumq.Renew:
		l.use.at = l.now
	case *quorumq.Extend:
		l.extended(c, r)
	case *quorumq.RetryDelayed:
		l.retriedDelayed(r)
	case *quorumq.BacklogSettle:
		l.backlogSettled(c)
	default:
	}
}

// noted keeps annotations of a message alive as long as it.
func (l *ledger) noted(c *copied, annotated bool, index uint64) {
	if annotated {
		l.annotate(c, quorumq.BodyRef{Index: index})
	}
}

// speaks records a node's epoch; a newer one ends the sessions before it.
func (l *ledger) speaks(n id.NodeID, e id.Epoch) {
	l.raised(n, e)
	if _, known := l.epochs[n]; !known {
		l.epochs[n], l.next[n] = e, 1
	}
}

// raised starts over with a node's numbers when a newer epoch of it shows up.
func (l *ledger) raised(n id.NodeID, e id.Epoch) {
	if have, known := l.epochs[n]; known && e > have {
		l.epochs[n], l.next[n] = e, 1
		delete(l.suspected, n)
		l.endSessions(func(k quorumq.SessionKey) bool { return k.Node == n }, true)
	}
}

// opens records that a session's node is active; true if the session is, or may be, there.
func (l *ledger) opens(k quorumq.SessionKey, code quorumq.ReplyCode) bool {
	if code != quorumq.CodeFenced {
		l.speaks(k.Node, k.Epoch)
	}
	if code == quorumq.CodeOK {
		delete(l.suspected, k.Node)
	}
	return code == quorumq.CodeOK
}

// down records that a node with sessions is suspected (DC-1).
func (l *ledger) down(c *quorumq.NodeDown) {
	l.raised(c.Node, c.Epoch)
	if _, already := l.suspected[c.Node]; already || c.Epoch < l.epochs[c.Node] {
		return
	}
	for k := range l.sessions {
		if k.Node == c.Node {
			l.suspected[c.Node] = l.now + quorumq.Time(l.config.DisconnectedTimeoutMs)
		}
	}
	l.timeOut()
}

// timeOut ends the sessions of nodes that were suspected for too long.
func (l *ledger) timeOut() {
	for n, deadline := range l.suspected {
		if deadline <= l.now {
			delete(l.suspected, n)
			l.endSessions(func(k quorumq.SessionKey) bool { return k.Node == n }, false)
		}
	}
}

// endSessions ends sessions with their consumers.
func (l *ledger) endSessions(which func(quorumq.SessionKey) bool, failed bool) {
	for k := range l.sessions {
		if which(k) {
			delete(l.sessions, k)
		}
	}
	for k := range l.use.subscribed {
		if which(k.SessionKey) {
			l.use.left(k, l.now)
			delete(l.deadlines.late, k)
		}
	}
	l.end(func(k quorumq.ConsumerKey) bool { return which(k.SessionKey) }, failed)
}

// end ends consumers: what they hold goes back.
func (l *ledger) end(which func(quorumq.ConsumerKey) bool, failed bool) {
	for k, held := range l.held {
		if which(k) {
			for _, c := range held {
				l.back(c, failed)
			}
			delete(l.held, k)
		}
	}
}

// back records that a copy left its consumer other than by a settlement (DEL-8).
func (l *ledger) back(c *copied, failed bool) {
	l.move(c, ready)
	c.acquired++
	l.begin(c)
	c.deadline = 0
	if failed {
		c.failures++
		c.worn = c.worn || l.config.DeliveryLimit >= 0 && int64(c.failures) > l.config.DeliveryLimit
	}
	l.holdBack(c, l.retried(c, failed))
}

func (l *ledger) settled(c *copied) { l.move(c, settled) }

// outcome applies a consumer's decision to what it holds.
func (l *ledger) outcome(k quorumq.ConsumerKey, rs []quorumq.MsgIDRange, r *quorumq.Reply, do func(*copied)) {
	held := l.held[k]
	if r.Code != quorumq.CodeOK && r.Code != quorumq.CodeNotHeld {
		return
	}
	l.deadlines.answered(k, rs)
	had := len(held)
	for _, rg := range rs {
		for m := rg.First; m <= rg.Last; m++ {
			c := held[m]
			if c == nil {
				continue
			}
			if !l.gifts[giftKey{k, m}].handed {
				l.broke("DEL-6", "consumer %v decided about number %d, which it never got", k, m)
			}
			delete(held, m)
			do(c)
		}
	}
	if notHeld := r.Code == quorumq.CodeNotHeld; notHeld != (len(held) == had) {
		l.broke("DEL-6", "consumer %v decided about %v, of which it held %d: code %d", k, rs, had-len(held), r.Code)
	}
}

// enqueued follows what an Enqueue must do (PUB-6): numbers below the next one are
// repeats, and so are a producer's numbers that were decided.
func (l *ledger) enqueued(index uint64, c *quorumq.Enqueue, r *quorumq.Reply) {
	if r.Code == quorumq.CodeFenced {
		if c.Enqueuer.Epoch >= l.epochs[c.Enqueuer.Node] {
			l.broke("PUB-6", "the newest epoch of node %s is fenced", c.Enqueuer.Node)
		}
		return
	}
	l.speaks(c.Enqueuer.Node, c.Enqueuer.Epoch)
	next := l.next[c.Enqueuer.Node]
	if (c.First > next) != (r.Code == quorumq.CodeGap) {
		l.broke("PUB-6", "numbers from %d on where %d is next: code %d", c.First, next, r.Code)
	}
	if r.Code != quorumq.CodeOK {
		return
	}
	n := 0
	for i := range c.Messages {
		m := &c.Messages[i]
		seq := c.First + quorumq.Seq(i)
		if seq < next {
			continue
		}
		next = seq + 1
		if m.Producer != nil {
			if m.ProducerSeq <= l.producers[*m.Producer] {
				continue
			}
			l.producers[*m.Producer] = m.ProducerSeq
		}
		_, no := slices.BinarySearch(r.Refused, seq)
		ref := quorumq.BodyRef{Index: index, Slot: uint32(i)}
		switch {
		case !no:
			n++
			l.store(ref, false)
			l.holdBack(l.copies[ref], l.until(m.Delay))
		case m.Size != quorumq.VoidSize && l.config.Overflow == quorumq.OverflowRejectPublishDLX:
			l.store(ref, true)
		}
	}
	l.next[c.Enqueuer.Node] = next
	if n != r.Stored {
		l.broke("PUB-6", "an Enqueue stored %d messages, %d are new", r.Stored, n)
	}
}

// transferred follows what a Transfer must do (DL-25).
func (l *ledger) transferred(index uint64, c *quorumq.Transfer, r *quorumq.Reply) {
	source := l.w.byUID[c.Source&realSource]
	s := l.sources[source]
	if s == nil {
		s = &sourceLog{stored: make(map[quorumq.Seq]bool)}
		l.sources[source] = s
	}
	s.settled = max(s.settled, c.Settled)
	n := 0
	for i := range c.DeadLetters {
		seq := c.DeadLetters[i].Seq
		if seq <= s.settled || s.stored[seq] {
			continue
		}
		if _, no := slices.BinarySearch(r.Refused, seq); no {
			s.refused = true
			continue
		}
		n++
		s.stored[seq] = true
		l.store(quorumq.BodyRef{Index: index, Slot: uint32(i)}, false)
		if seq < s.last && !s.refused && l.w.swarm.static {
			l.broke("DL-29", "dead letter %d of queue %s is stored after %d", seq, source.name, s.last)
		}
		s.last = max(s.last, seq)
	}
	if n != r.Stored {
		l.broke("DL-25", "a Transfer of queue %s stored %d dead letters, %d are new", source.name, r.Stored, n)
	}
}

// delivered judges an assignment.
func (l *ledger) delivered(d *quorumq.Delivery) {
	c := l.copies[d.Body]
	switch {
	case c == nil:
		l.broke("invented", "body %v is delivered, which was never stored", d.Body)
		return
	case c.state != ready || c.rejected:
		l.broke("DEL-1", "body %v is delivered in state %d", d.Body, c.state)
	case c.due > 0:
		l.broke("DR-3", "body %v is delivered at %d, it is due at %d", d.Body, l.now, c.due)
	case c.notes != d.Annotations:
		l.broke("DEL-11", "body %v is delivered with annotations %v, not %v", d.Body, d.Annotations, c.notes)
	case c.acquired != d.AcquiredCount || c.failures != d.DeliveryCount:
		l.broke("DEL-10", "body %v is delivered with counts %d and %d, which are %d and %d", d.Body, d.AcquiredCount,
			d.DeliveryCount, c.acquired, c.failures)
	case c.worn:
		l.broke("DEL-9", "body %v is delivered after %d failures, the limit is %d", d.Body, c.failures, l.config.DeliveryLimit)
	case l.dueBy(c, l.ttl[1]):
		l.broke("TTL-2", "body %v is delivered after its time", d.Body)
	case d.MsgID <= l.last[d.Consumer]:
		l.broke("DEL-6", "consumer %v gets number %d after %d", d.Consumer, d.MsgID, l.last[d.Consumer])
	case len(l.deadlines.late[d.Consumer]) > 0:
		l.broke("CT-2", "consumer %v gets number %d, it has not answered for %d that timed out", d.Consumer, d.MsgID, len(l.deadlines.late[d.Consumer]))
	}
	l.gives(c)
	l.last[d.Consumer] = d.MsgID
	l.gifts[giftKey{d.Consumer, d.MsgID}] = &gift{copy: c, acquired: c.acquired, failures: c.failures, notes: c.notes}
	if c.acquired == 0 && c.meta.kind == published && !c.meta.delayed {
		k := orderKey{c.meta.channel, c.meta.level}
		if c.meta.seq <= l.deliveredUpTo[k] {
			l.broke("PUB-6", "number %d of channel %d is first delivered after number %d", c.meta.seq, k.channel, l.deliveredUpTo[k])
		}
		l.deliveredUpTo[k] = c.meta.seq
	}
	if l.auto[d.Consumer] {
		l.move(c, autoAcked)
		return
	}
	l.move(c, assigned)
	c.deadline = l.deadlines.end(l, d.Consumer)
	for k, held := range l.held {
		if l.config.SingleActive && k != d.Consumer && len(held) > 0 && !l.exempt[k] {
			l.broke("SAC-3", "consumer %v gets number %d while %v holds %d messages", d.Consumer, d.MsgID, k, len(held))
		}
	}
	if l.held[d.Consumer] == nil {
		l.held[d.Consumer] = make(map[quorumq.MsgID]*copied)
	}
	l.held[d.Consumer][d.MsgID] = c
	if n := len(l.held[d.Consumer]); d.Consumer.Tag != 0 && n > int(l.w.swarm.prefetch) {
		l.broke("DEL-3", "consumer %v holds %d messages, its prefetch is %d", d.Consumer, n, l.w.swarm.prefetch)
	}
	if limit, credit := l.limit[d.Consumer]; credit && d.MsgID > limit {
		l.broke("DEL-3", "consumer %v gets number %d, its credit ends at %d", d.Consumer, d.MsgID, limit)
	}
}
