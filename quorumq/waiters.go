package quorumq

import (
	"cmp"
	"slices"
)

// waiters holds the consumers that may take a message, in one line for each consumer priority, the
// highest first. A consumer that got a message goes to the end of its line (DEL-2). So the next
// consumer is found without a search.
//
// Invariants, see check: every consumer that may take a message is in line, once, in the line of
// its priority. A consumer in line may have lost its credit meanwhile; it is skipped when it is
// first.
type waiters struct{ lines []waitLine }

// waitLine is the line of one priority.
type waitLine struct {
	priority  int32
	consumers []*consumer // consumers[head:]
	head      int
}

// maxIdleLines is the number of lines above which empty ones are dropped. Below it they are kept,
// to reuse their memory.
const maxIdleLines = 64

// push puts a consumer at the end.
func (l *waitLine) push(c *consumer) {
	if len(l.consumers) == cap(l.consumers) && l.head > len(l.consumers)/2 {
		n := copy(l.consumers, l.consumers[l.head:])
		clear(l.consumers[n:])
		l.consumers, l.head = l.consumers[:n], 0
	}
	l.consumers = append(l.consumers, c)
}

// pop removes the first consumer; there must be one.
func (l *waitLine) pop() *consumer {
	c := l.consumers[l.head]
	l.consumers[l.head] = nil
	l.head++
	if l.head == len(l.consumers) {
		l.consumers, l.head = l.consumers[:0], 0
	}
	return c
}

// len returns how many consumers are in line.
func (l *waitLine) len() int { return len(l.consumers) - l.head }

// drop removes the consumers that which chooses.
func (l *waitLine) drop(which func(*consumer) bool) {
	kept := slices.DeleteFunc(l.consumers[l.head:], which)
	l.consumers = l.consumers[:l.head+len(kept)]
}

// wake puts a consumer in line if it may take a message.
func (w *waiters) wake(c *consumer) {
	if c.waiting || !c.canTake() {
		return
	}
	w.line(c.priority).push(c)
	c.waiting = true
}

// line returns the line of a priority, and creates it if there is none.
func (w *waiters) line(priority int32) *waitLine {
	if len(w.lines) > 0 && w.lines[0].priority == priority { // usually all consumers have the same priority
		return &w.lines[0]
	}
	if len(w.lines) >= maxIdleLines {
		w.lines = slices.DeleteFunc(w.lines, func(l waitLine) bool { return l.len() == 0 })
	}
	i, ok := slices.BinarySearchFunc(w.lines, priority, func(l waitLine, p int32) int {
		return cmp.Compare(p, l.priority)
	})
	if !ok {
		w.lines = slices.Insert(w.lines, i, waitLine{priority: priority})
	}
	return &w.lines[i]
}

// next removes the consumer whose turn it is from its line, nil if none waits.
func (w *waiters) next() *consumer {
	for i := range w.lines {
		for w.lines[i].len() > 0 {
			c := w.lines[i].pop()
			c.waiting = false
			if c.canTake() {
				return c
			}
		}
	}
	return nil
}

// any reports whether some consumer may take a message.
func (w *waiters) any() bool {
	for i := range w.lines {
		l := &w.lines[i]
		if slices.ContainsFunc(l.consumers[l.head:], (*consumer).canTake) {
			return true
		}
	}
	return false
}

// leave removes one consumer from its line.
func (w *waiters) leave(c *consumer) {
	if !c.waiting {
		return
	}
	c.waiting = false
	for i := range w.lines {
		if l := &w.lines[i]; l.priority == c.priority {
			l.drop(func(o *consumer) bool { return o == c })
		}
	}
}

// sweep removes consumers of closed sessions from all lines.
func (w *waiters) sweep() {
	for i := range w.lines {
		w.lines[i].drop(func(c *consumer) bool { return c.session.closed })
	}
}

// put writes which consumers are in line, by priority and position; place returns where a session
// is stored.
func (w *waiters) put(b []byte, place func(*session) uint64) []byte {
	n := 0
	for i := range w.lines {
		n += w.lines[i].len()
	}
	b = putU(b, uint64(n))
	for i := range w.lines {
		l := &w.lines[i]
		for _, c := range l.consumers[l.head:] {
			b = putU(putU(b, place(c.session)), uint64(c.key.Tag))
		}
	}
	return b
}

// restore reads them from a snapshot, as positions in sessions and tags.
func (w *waiters) restore(r *reader, sessions []*session) {
	for range r.count(2) {
		i, tag := r.u(), r.u32()
		if i >= uint64(len(sessions)) {
			r.fail(errRange)
			return
		}
		s := sessions[i]
		j, ok := s.search(tag)
		if !ok || s.consumers[j].waiting {
			r.fail(errRange)
			return
		}
		c := s.consumers[j]
		if n := len(w.lines); n == 0 || w.lines[n-1].priority != c.priority {
			w.lines = append(w.lines, waitLine{priority: c.priority})
		}
		w.lines[len(w.lines)-1].push(c)
		c.waiting = true
	}
}

// check returns an inconsistency, if there is one.
func (w *waiters) check(sessions []*session) error {
	inLine := make(map[*consumer]bool)
	for i := range w.lines {
		l := &w.lines[i]
		if i > 0 && w.lines[i-1].priority <= l.priority {
			return inv("line of priority %d after %d", l.priority, w.lines[i-1].priority)
		}
		for _, c := range l.consumers[l.head:] {
			if inLine[c] || !c.waiting || c.priority != l.priority {
				return inv("consumer %v stands in line %d", c.key, l.priority)
			}
			inLine[c] = true
		}
	}
	for _, s := range sessions {
		for _, c := range s.consumers {
			if c.waiting != inLine[c] || !c.waiting && c.canTake() {
				return inv("consumer %v waits %t, stands in line %t", c.key, c.waiting, inLine[c])
			}
			delete(inLine, c)
		}
	}
	if len(inLine) > 0 {
		return inv("%d consumers stand in line that have gone", len(inLine))
	}
	return nil
}
