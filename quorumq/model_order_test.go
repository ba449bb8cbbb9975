package quorumq

import (
	"cmp"
	"slices"
)

// all returns the messages that no consumer has and that are not in the
// backlog.
func (q *model) all() []*mMessage { return slices.Concat(q.ready, q.back, q.delayed) }

func least(all []*mMessage, compare func(a, b *mMessage) int) *mMessage {
	if len(all) == 0 {
		return nil
	}
	return slices.MinFunc(all, compare)
}

func (q *model) firstDelayed() *mMessage {
	return least(q.delayed, func(a, b *mMessage) int { return cmp.Compare(a.due, b.due) })
}

func (q *model) firstExpired() *mMessage {
	expired := slices.DeleteFunc(q.all(), func(m *mMessage) bool { return !q.expired(m) })
	return least(expired, func(a, b *mMessage) int {
		return cmp.Or(cmp.Compare(q.expiryOf(a), q.expiryOf(b)), cmp.Compare(a.ord, b.ord))
	})
}

// promote makes a delayed message ready.
func (q *model) promote(m *mMessage) {
	q.remove(m)
	if !m.fresh {
		q.putBack(m)
		return
	}
	q.ord++
	m.fresh, m.at, m.ord = false, q.now, q.ord
	q.ready = append(q.ready, m)
}

func (q *model) putBack(m *mMessage) {
	q.returns++
	m.number = q.returns
	q.back = append(q.back, m)
}

// until returns the time until which a returned message waits, 0 if it does not
// wait.
func (q *model) until(m *mMessage, failed bool, d Delay) Time {
	r := q.c.Retry
	switch {
	case d.At > q.now:
		return d.At
	case d.Ms > 0:
		return q.now + Time(d.Ms)
	case r.Type == RetryDisabled, r.Type == RetryFailed && !failed, r.Type == RetryReturned && failed:
		return 0
	}
	ms := r.MinMs
	for n := uint32(1); n < m.fails && ms < r.MaxMs; n++ {
		if r.Backoff == BackoffExponential {
			ms *= 2
		} else {
			ms += r.MinMs
		}
	}
	if r.Backoff == BackoffSteps {
		ms = r.StepsMs[min(max(int(m.fails), 1), int(r.Steps))-1]
	}
	ms = min(max(ms, r.MinMs), r.MaxMs)
	if most := ms * int64(r.JitterPercent) / 100; most > 0 {
		h := held{message: message{index: m.body.Index, slot: m.body.Slot}, acquired: m.acquired}
		ms += int64(scatter(h.seed()) % uint64(most+1))
	}
	return q.now + Time(ms)
}

// inLine returns the messages that are considered for the next delivery.
func (q *model) inLine() []*mMessage {
	if q.c.ReturnToPlace {
		return slices.Concat(q.ready, q.back)
	}
	return q.ready
}

func (q *model) next() *mMessage {
	if len(q.back) > 0 && !q.c.ReturnToPlace {
		return q.back[0]
	}
	in := make(map[int][]*mMessage)
	for _, m := range q.inLine() {
		in[m.level] = append(in[m.level], m)
	}
	oldest := func(l int) *mMessage {
		return least(in[l], func(a, b *mMessage) int { return cmp.Compare(a.ord, b.ord) })
	}
	if q.c.FairPriorities && q.left > 0 && len(in[q.level]) > 0 {
		return oldest(q.level)
	}
	from := 0 // the level above the highest
	if q.c.FairPriorities {
		from = q.level
	}
	for i := 1; i <= levels; i++ {
		if l := (from - i + levels) % levels; len(in[l]) > 0 {
			return oldest(l)
		}
	}
	return nil
}

// takeNext removes the next message.
func (q *model) takeNext() *mMessage {
	m := q.next()
	if fromBack := slices.Contains(q.back, m); q.c.FairPriorities && (!fromBack || q.c.ReturnToPlace) {
		if q.left > 0 && q.level == m.level {
			q.left--
		} else {
			q.level, q.left = m.level, m.level
		}
	}
	q.remove(m)
	return m
}

func (q *model) counted() (messages, size int64) {
	for _, m := range q.all() {
		messages++
		size += int64(m.size)
	}
	for _, d := range q.backlog {
		if !q.apart() {
			messages++
			size += int64(q.sizes[d.Body])
		}
	}
	return messages, size
}

func (q *model) apart() bool {
	return q.c.DeadLetter == DeadLetterAtLeastOnce && q.c.Overflow == OverflowDropHead
}

func (q *model) refuses() bool {
	return q.c.Overflow != OverflowDropHead || q.apart() && len(q.backlog) >= int(q.c.BacklogLimit)
}

func (q *model) over(moreMessages, moreBytes int64) bool {
	messages, size := q.counted()
	return q.c.MaxLength >= 0 && messages+moreMessages > q.c.MaxLength ||
		q.c.MaxLengthBytes >= 0 && size+moreBytes > q.c.MaxLengthBytes || q.overTotal(moreMessages)
}

func (q *model) overTotal(more int64) bool {
	total, _ := q.counted()
	for _, c := range q.consumers {
		total += int64(len(c.held))
	}
	return q.c.MaxLengthTotal >= 0 && total+more > q.c.MaxLengthTotal
}

func (q *model) dropHead() {
	if q.c.Rules < RulesThird {
		q.dropWhile(func() bool { return q.over(0, 0) })
		return
	}
	q.dropWhile(func() bool { return q.overTotal(0) })
	q.overfull = true
}

// enforce drops what is above a limit even after consumers have been served.
func (q *model) enforce() {
	if q.overfull {
		q.dropWhile(func() bool { return q.over(0, 0) })
	}
	q.overfull = false
}

func (q *model) excess() bool {
	return q.c.Rules >= RulesThird && !q.refuses() && q.over(0, 0) && len(q.all()) > 0
}

func (q *model) dropWhile(over func() bool) {
	for !q.refuses() && over() {
		switch {
		case len(q.all()) == 0:
			return
		case q.c.Rules < RulesThird:
		case q.granted:
			q.granted = false
		case q.handled < ExpireSlice:
			q.handled++
		default:
			return
		}
		m := q.victim()
		q.remove(m)
		q.discard(m, ReasonMaxLen)
	}
}

func (q *model) victim() *mMessage {
	readyOnes := slices.Concat(q.ready, q.back)
	switch {
	case len(readyOnes) == 0:
		return q.firstDelayed()
	case q.c.Victim == VictimHead:
		return q.takeNext()
	}
	return least(readyOnes, func(a, b *mMessage) int {
		if q.c.Victim == VictimOldest {
			return cmp.Compare(a.ord, b.ord)
		}
		return cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(a.ord, b.ord))
	})
}

// abandon drops dead letters when at-least-once has ended (DL-27).
func (q *model) abandon(old Config) {
	if old.DeadLetter != DeadLetterAtLeastOnce || q.c.DeadLetter == DeadLetterAtLeastOnce ||
		q.c.OnSwitch == SwitchDrain || q.c.OnSwitch == SwitchUnset && old.OnSwitch != SwitchDrop {
		return
	}
	n := len(q.backlog)
	q.backlog = slices.DeleteFunc(q.backlog, func(d Discarded) bool { return d.To == nil })
	q.reply.Count = uint64(n - len(q.backlog))
}

// transact settles all and publishes all, or does nothing (G-22).
func (q *model) transact(m Meta, c *Transact) {
	o := q.find(c.Consumer)
	if o == nil {
		return
	}
	named := map[MsgID]bool{}
	for _, r := range c.Ranges {
		for id := r.First; id <= r.Last; id++ {
			if named[id] || !slices.ContainsFunc(o.held, func(h mHeld) bool { return h.id == id }) {
				q.reply.Code = CodeNotHeld
				return
			}
			named[id] = true
		}
	}
	for i, out := range c.Outputs {
		q.seq++
		body := bodiesOf(m, c)[i]
		q.backlog = append(q.backlog, Discarded{Seq: q.seq, Body: body, At: q.now, To: &Destination{Kind: ToExchange, Name: out.Exchange}})
		q.sizes[body] = out.Size
		q.e.Backlog = true
	}
	q.reply.Count = uint64(len(c.Outputs))
	for _, r := range c.Ranges {
		q.take(o, r)
	}
	q.answer(o, c.Ranges)
	q.done(o)
}
