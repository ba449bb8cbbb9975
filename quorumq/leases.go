package quorumq

import "slices"

// This part of subscriptions ends what consumers have had for too long (CT-1, CT-2). What
// consumers and subscriptions keep as due is no later than the first end of a lease, and may be
// earlier: that of a delivery which was settled may have made it. It is put right when it comes,
// so that a delivery costs no search for the next end when it goes.

// LeaseTickMs is what times of leases are rounded up to, in milliseconds, so that those of
// many deliveries are looked at together (CT-6).
const LeaseTickMs = 250

// leaseEnd returns when a lease of so many milliseconds ends, that begins now.
func leaseEnd(now Time, ms int64) Time {
	return after(after(now, ms), int64(LeaseTickMs-1)) / LeaseTickMs * LeaseTickMs
}

// startLease gives an assignment its end (CT-1), by the consumer's own timeout or the queue's.
// Get's have none: its gateway looks after them (DEL-5).
func (s *subscriptions) startLease(c *consumer, a *assigned, now Time, queueTimeoutMs int64) {
	ms := queueTimeoutMs
	if c.ownTimeout {
		ms = c.timeout
	}
	if ms == 0 || c.key.Tag == 0 {
		return
	}
	a.due = leaseEnd(now, ms)
	if c.due == 0 || a.due < c.due {
		c.due = a.due
		if s.leaseDue == 0 || a.due < s.leaseDue {
			s.leaseDue = a.due
		}
	}
}

// revokeDue takes from consumers what they have had for too long, into leaving, to be requeued in
// the order of its assignment and not failed (CT-2). It returns how many messages that are.
func (s *subscriptions) revokeDue(now Time) (revoked int) {
	if s.leaseDue == 0 || s.leaseDue > now {
		return 0
	}
	s.leaseDue = 0
	s.leaving = s.leaving[:0]
	for _, x := range s.order {
		for i := 0; i < len(x.consumers); i++ {
			c := x.consumers[i]
			if c.due != 0 && c.due <= now {
				s.revoke(c, now)
			}
			if c.due != 0 && (s.leaseDue == 0 || c.due < s.leaseDue) {
				s.leaseDue = c.due
			}
			if c.cancelled && c.held.live == 0 {
				s.dismiss(c)
				i--
			}
		}
	}
	return len(s.leaving)
}

// revoke takes what is due from one consumer, and finds what is due next.
func (s *subscriptions) revoke(c *consumer, now Time) {
	w := &c.held
	w.own(s.gen)
	c.due = 0
	taken := 0
	for i := w.head; i < len(w.items); i++ {
		a := &w.items[i]
		switch {
		case a.isRemoved() || a.due == 0:
			continue
		case a.due > now:
			if c.due == 0 || a.due < c.due {
				c.due = a.due
			}
			continue
		}
		s.leaving = append(s.leaving, leaving{assigned: *a})
		s.tellRevoked(c, a.id, taken > 0)
		if !c.cancelled {
			c.late = append(c.late, a.id)
		}
		taken++
		w.remove(a)
	}
	if taken > 0 {
		slices.Sort(c.late)
		w.tidy()
	}
}

// tellRevoked joins ids that follow each other in one notice.
func (s *subscriptions) tellRevoked(c *consumer, m MsgID, joins bool) {
	if n := len(s.notices); joins && s.notices[n-1].Messages.Last+1 == m {
		s.notices[n-1].Messages.Last = m
		return
	}
	s.notices = append(s.notices, Notice{
		Consumer: c.key, Kind: NoticeRevoked, Messages: MsgIDRange{First: m, Last: m},
	})
}

// answerLate notes that a consumer has decided about deliveries that timed out; when it has
// about all, it gets new ones (CT-2).
func (s *subscriptions) answerLate(c *consumer, ranges []MsgIDRange) {
	if len(c.late) == 0 {
		return
	}
	c.late = slices.DeleteFunc(c.late, func(m MsgID) bool {
		return slices.ContainsFunc(ranges, func(r MsgIDRange) bool { return r.First <= m && m <= r.Last })
	})
	if len(c.late) == 0 {
		c.late = nil
		s.waiters.wake(c)
		s.elect() // SAC-5
	}
}

// extend moves ends of leases that are earlier (CT-5), and returns how many.
func (s *subscriptions) extend(c *consumer, ranges []MsgIDRange, end Time) (extended uint64) {
	w := &c.held
	w.own(s.gen)
	for _, r := range ranges {
		for i := w.search(r.First); i < len(w.items) && w.items[i].id <= r.Last; i++ {
			if a := &w.items[i]; !a.isRemoved() && a.due != 0 && a.due < end {
				a.due = end
				extended++
			}
		}
	}
	return extended
}
