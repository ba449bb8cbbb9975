package quorumq

import "slices"

// AckDeadlineTickMs is the unit to which ack deadlines are rounded up, in milliseconds, so that
// those of many deliveries are checked together (CT-6).
const AckDeadlineTickMs = 250

// ackDeadlines takes deliveries back that consumers have held for too long (CT-1, CT-2).
//
// Invariants, see subscriptions.checkWindow: due, unless 0, is no later than the due of any consumer; and the due of a
// consumer, unless 0, is no later than the deadline of any of its deliveries. If a delivery has a deadline, neither is
// 0. Both may be too early, because a delivery with an earlier deadline was settled. They are corrected only when they
// come due, so that settling a delivery needs no search for the next deadline.
type ackDeadlines struct{ due Time }

// ackDeadline returns the deadline of a delivery made now that may be held for ms milliseconds.
func ackDeadline(now Time, ms int64) Time {
	return after(after(now, ms), int64(AckDeadlineTickMs-1)) / AckDeadlineTickMs * AckDeadlineTickMs
}

// start sets the deadline of an assignment, from the consumer's own timeout or the queue's. Assignments of a Get have
// none, because the gateway watches them (DEL-5).
func (d *ackDeadlines) start(c *consumer, a *assigned, now Time, queueTimeoutMs int64) {
	ms := queueTimeoutMs
	if c.ownTimeout {
		ms = c.timeout
	}
	if ms == 0 || c.key.Tag == 0 {
		return
	}
	a.due = ackDeadline(now, ms)
	if c.due == 0 || a.due < c.due {
		c.due = a.due
		d.notLater(c.due)
	}
}

// notLater lowers due to a time, unless that is 0.
func (d *ackDeadlines) notLater(t Time) {
	if t != 0 && (d.due == 0 || t < d.due) {
		d.due = t
	}
}

// passed reports whether a deadline may have passed. If so, it resets due, for the caller to find the next one.
func (d *ackDeadlines) passed(now Time) bool {
	if d.due == 0 || d.due > now {
		return false
	}
	d.due = 0
	return true
}

// revoke takes back what is due from one consumer, notifies it, and appends the deliveries to leaving. Then it lowers
// due to the consumer's next deadline.
func (d *ackDeadlines) revoke(c *consumer, now Time, gen uint64, leaving []leaving, out *notices) []leaving {
	if c.due != 0 && c.due <= now {
		leaving = c.revoke(now, gen, leaving, out)
	}
	d.notLater(c.due)
	return leaving
}

// revoke takes back what is due from the consumer, and finds its next deadline.
func (c *consumer) revoke(now Time, gen uint64, to []leaving, out *notices) []leaving {
	w := &c.held
	w.own(gen)
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
		to = append(to, leaving{assigned: *a})
		out.revoked(c, a.id, taken > 0)
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
	return to
}

// answer records that the consumer has decided about deliveries that timed out. It reports whether it has now decided
// about all of them: then it gets new ones (CT-2).
func (c *consumer) answer(ranges []MsgIDRange) bool {
	if len(c.late) == 0 {
		return false
	}
	c.late = slices.DeleteFunc(c.late, func(m MsgID) bool {
		return slices.ContainsFunc(ranges, func(r MsgIDRange) bool { return r.First <= m && m <= r.Last })
	})
	if len(c.late) > 0 {
		return false
	}
	c.late = nil
	return true
}

// extend moves deadlines that are earlier than end to end (CT-5), and returns how many.
func (c *consumer) extend(ranges []MsgIDRange, end Time, gen uint64) (extended uint64) {
	w := &c.held
	w.own(gen)
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
