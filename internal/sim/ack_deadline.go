package sim

import (
	"slices"

	"github.com/quorate/quorate/quorumq"
)

// ackDeadlines follow for how long consumers may have what they hold (CT-1 to CT-5).
type ackDeadlines struct {
	own  map[quorumq.ConsumerKey]int64 // timeouts that consumers named, ms
	late map[quorumq.ConsumerKey]map[quorumq.MsgID]bool
	// ended are those of the newest command, of which nobody was notified yet.
	ended map[giftKey]bool
}

// newAckDeadlines knows of no consumer yet.
func newAckDeadlines() ackDeadlines {
	return ackDeadlines{
		own: make(map[quorumq.ConsumerKey]int64), late: make(map[quorumq.ConsumerKey]map[quorumq.MsgID]bool),
		ended: make(map[giftKey]bool),
	}
}

// opened records what a Checkout asks for.
func (s *ackDeadlines) opened(c *quorumq.Checkout) {
	delete(s.own, c.Consumer)
	if c.HasTimeout {
		s.own[c.Consumer] = c.TimeoutMs
	}
}

// ackDeadline returns when so many milliseconds from now are over.
func (l *ledger) ackDeadline(ms int64) quorumq.Time {
	return (l.now + quorumq.Time(ms) + quorumq.AckDeadlineTickMs - 1) / quorumq.AckDeadlineTickMs * quorumq.AckDeadlineTickMs
}

// end returns until when a consumer may have what it gets now, 0 for ever.
func (s *ackDeadlines) end(l *ledger, k quorumq.ConsumerKey) quorumq.Time {
	ms, own := s.own[k]
	if !own {
		ms = l.config.ConsumerTimeoutMs
	}
	if ms == 0 || k.Tag == 0 {
		return 0
	}
	return l.ackDeadline(ms)
}

// timeOutDeliveries takes back what consumers have had for too long.
func (l *ledger) timeOutDeliveries() {
	for k, held := range l.held {
		for m, c := range held {
			if c.deadline == 0 || c.deadline > l.now {
				continue
			}
			delete(held, m)
			l.back(c, false)
			l.deadlines.ended[giftKey{k, m}] = true
			if l.use.subscribed[k] {
				if l.deadlines.late[k] == nil {
					l.deadlines.late[k] = make(map[quorumq.MsgID]bool)
				}
				l.deadlines.late[k][m] = true
			}
		}
	}
}

// checkNotices holds the notices against what has timed out: each of them, and nothing else (CT-3).
func (s *ackDeadlines) checkNotices(l *ledger, ns []quorumq.Notice) {
	for _, n := range ns {
		if n.Kind != quorumq.NoticeRevoked {
			continue
		}
		for m := n.Messages.First; m <= n.Messages.Last; m++ {
			k := giftKey{n.Consumer, m}
			if !s.ended[k] {
				l.broke("CT-3", "consumer %v is notified that number %d timed out, which did not", n.Consumer, m)
			}
			delete(s.ended, k)
		}
	}
	if len(s.ended) > 0 {
		l.broke("CT-3", "%d deliveries timed out and nobody is notified", len(s.ended))
	}
}

// answered records that a consumer has decided about what timed out.
func (s *ackDeadlines) answered(k quorumq.ConsumerKey, rs []quorumq.MsgIDRange) {
	for m := range s.late[k] {
		if slices.ContainsFunc(rs, func(r quorumq.MsgIDRange) bool { return r.First <= m && m <= r.Last }) {
			delete(s.late[k], m)
		}
	}
}

// extended follows a consumer that wants more time (CT-5).
func (l *ledger) extended(c *quorumq.Extend, r *quorumq.Reply) {
	if r.Code != quorumq.CodeOK {
		return
	}
	end, n := l.ackDeadline(c.TimeoutMs), uint64(0)
	for _, rg := range c.Ranges {
		for m := rg.First; m <= rg.Last; m++ {
			if h := l.held[c.Consumer][m]; h != nil && h.deadline > 0 && h.deadline < end {
				h.deadline = end
				n++
			}
		}
	}
	if n != r.Count {
		l.broke("CT-5", "consumer %v has more time for %d deliveries, it must be %d", c.Consumer, r.Count, n)
	}
}

// extend asks for more time for what the client has.
func (c *consumer) extend() {
	if c.node < 0 || !c.open || len(c.got) == 0 || c.end.target < 0 {
		return
	}
	r := quorumq.MsgIDRange{First: c.got[0], Last: c.got[c.w.rng.IntN(len(c.got))]}
	c.w.event("extend session first last", int64(c.key.Session), int64(r.First), int64(r.Last))
	cmd := &quorumq.Extend{Consumer: c.key, TimeoutMs: 1 + c.w.rng.Int64N(3000), Ranges: []quorumq.MsgIDRange{r}}
	c.end.send(quorumq.AppendCommand(nil, cmd), nil, func(callResult) {})
}

// use follows whether a queue is used (QX-1).
type use struct {
	at         quorumq.Time // of the latest use; 0: no command yet
	subscribed map[quorumq.ConsumerKey]bool
}

func newUse() use { return use{subscribed: make(map[quorumq.ConsumerKey]bool)} }

// begin records only the first use.
func (u *use) begin(now quorumq.Time) {
	if u.at == 0 {
		u.at = now
	}
}

// left records that a consumer is gone, or cancelled.
func (u *use) left(k quorumq.ConsumerKey, now quorumq.Time) {
	if u.subscribed[k] {
		delete(u.subscribed, k)
		u.at = now
	}
}

// judgeUnused: a queue is to be deleted only when nobody has used it for its time.
func (l *ledger) judgeUnused() {
	held := l.count[ready] + l.count[assigned] + l.count[backlog]
	if c := l.config; c.ExpiresMs <= 0 || len(l.use.subscribed) > 0 || l.use.at+quorumq.Time(c.ExpiresMs) > l.now || c.ExpiresIfEmpty && held > 0 {
		l.broke("QX-1", "the queue is to be deleted after %d ms: %d consumers, used last at %d, now %d, holds %d", c.ExpiresMs,
			len(l.use.subscribed), l.use.at, l.now, held)
	}
}

// deleteUnused deletes queues whose leader was notified so, if that still holds.
func (w *world) deleteUnused() {
	for _, g := range w.groups {
		if g.unused && !g.deleted && g.leader >= 0 && g.reps[g.leader].m.q.Unused() {
			w.delete(g)
		}
		g.unused = false
	}
}
