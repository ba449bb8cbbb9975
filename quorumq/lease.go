package quorumq

import "slices"

// LeaseTickMs is what times of leases are rounded up to, in milliseconds, so that those of
// many deliveries are looked at together (CT-6).
const LeaseTickMs = 250

// leaseEnd returns when a lease of so many milliseconds ends, that begins now.
func (q *Queue) leaseEnd(ms int64) Time {
	end := after(q.now, ms)
	return after(end, int64(LeaseTickMs-1)) / LeaseTickMs * LeaseTickMs
}

// startLease gives an assignment its end (CT-1). Get's have none: its gateway looks after
// them (DEL-5).
func (q *Queue) startLease(c *consumer, a *assigned) {
	ms := q.config.ConsumerTimeoutMs
	if c.ownTimeout {
		ms = c.timeout
	}
	if ms == 0 || c.key.Tag == 0 {
		return
	}
	a.due = q.leaseEnd(ms)
	if c.due == 0 || a.due < c.due {
		c.due = a.due
		if q.leaseDue == 0 || a.due < q.leaseDue {
			q.leaseDue = a.due
		}
	}
}

// timeOutLeases takes back what consumers have had for too long, in the order of its
// assignment and not failed (CT-2).
//
// What consumers and queue keep is no later than the first end of a lease: that of a delivery
// which was settled may have made it. It is put right here, so that a delivery costs no
// search for the next end when it goes.
func (q *Queue) timeOutLeases() {
	if q.leaseDue == 0 || q.leaseDue > q.now {
		return
	}
	q.leaseDue = 0
	q.moved = q.moved[:0]
	for _, s := range q.order {
		for i := 0; i < len(s.consumers); i++ {
			c := s.consumers[i]
			if c.due != 0 && c.due <= q.now {
				q.revoke(c)
			}
			if c.due != 0 && (q.leaseDue == 0 || c.due < q.leaseDue) {
				q.leaseDue = c.due
			}
			if c.cancelled && c.held.live == 0 {
				q.dismiss(c)
				i--
			}
		}
	}
	if len(q.moved) > 0 {
		q.giveBackMoved(false)
	}
}

// revoke takes what is due from one consumer, into moved, and finds what is due next.
func (q *Queue) revoke(c *consumer) {
	w := &c.held
	w.own(q.gen)
	c.due = 0
	taken := 0
	for i := w.head; i < len(w.items); i++ {
		a := &w.items[i]
		switch {
		case a.isRemoved() || a.due == 0:
			continue
		case a.due > q.now:
			if c.due == 0 || a.due < c.due {
				c.due = a.due
			}
			continue
		}
		q.moved = append(q.moved, leaving{assigned: *a})
		q.tellRevoked(c, a.id, taken > 0)
		if !c.cancelled {
			c.late = append(c.late, a.id)
		}
		taken++
		q.stats.timeouts++
		a.remove()
		w.live--
	}
	if taken > 0 {
		slices.Sort(c.late)
		w.tidy()
	}
}

// tellRevoked joins ids that follow each other in one notice.
func (q *Queue) tellRevoked(c *consumer, m MsgID, joins bool) {
	if n := len(q.effects.Notices); joins && q.effects.Notices[n-1].Messages.Last+1 == m {
		q.effects.Notices[n-1].Messages.Last = m
		return
	}
	q.effects.Notices = append(q.effects.Notices, Notice{
		Consumer: c.key, Kind: NoticeRevoked, Messages: MsgIDRange{First: m, Last: m},
	})
}

// answerLate notes that a consumer has decided about deliveries that timed out; when it has
// about all, it gets new ones (CT-2).
func (q *Queue) answerLate(c *consumer, ranges []MsgIDRange) {
	if len(c.late) == 0 {
		return
	}
	c.late = slices.DeleteFunc(c.late, func(m MsgID) bool {
		return slices.ContainsFunc(ranges, func(r MsgIDRange) bool { return r.First <= m && m <= r.Last })
	})
	if len(c.late) == 0 {
		c.late = nil
		q.wake(c)
		q.elect() // SAC-5
	}
}

// applyExtend moves the end of leases (CT-5).
func (q *Queue) applyExtend(c *Extend) {
	con := q.consumer(c.Consumer)
	switch {
	case c.TimeoutMs <= 0:
		q.reply.Code = CodeMalformed
		return
	case con == nil:
		q.reply.Code = CodeUnknownConsumer
		return
	}
	end := q.leaseEnd(c.TimeoutMs)
	w := &con.held
	w.own(q.gen)
	for _, r := range c.Ranges {
		for i := w.search(r.First); i < len(w.items) && w.items[i].id <= r.Last; i++ {
			if a := &w.items[i]; !a.isRemoved() && a.due != 0 && a.due < end {
				a.due = end
				q.reply.Count++
			}
		}
	}
}
