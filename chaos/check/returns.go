package check

import (
	"time"

	"github.com/quorate/quorate/chaos/history"
)

// returnedFirst: a message that was returned is delivered before all that nobody had yet, and before what was returned
// later (DEL-1). It is judged where the consumer that gave it back gets it again with the next number of an assignment:
// from the commit of the return on it has waited in the queue, and nobody else has had it. A message as new that came
// meanwhile was chosen too soon if the settlement that made room for it began after that commit: with a prefetch of n
// the consumer gets its kth message once it began to settle k - n of those before. So it does not matter who else
// consumes, in which order settlements are committed, or what a fault delays.
func returnedFirst(l *ledger) Guarantee {
	g := Guarantee{Name: "returned messages come first", Rule: "DEL-1"}
	at := map[string]*giver{}
	for i := range l.events {
		e := &l.events[i]
		c := at[e.Consumer]
		switch {
		case e.Kind == history.Opened && e.Prefetch > 0 && !l.spec(e.Queue).Moved && !l.comesBack(e.Queue):
			at[e.Consumer] = &giver{prefetch: int(e.Prefetch), gave: map[history.Message]*gift{}}
		case c == nil:
		case e.Kind == history.Lost:
			delete(at, e.Consumer)
		case e.Kind == history.Delivered:
			l.givenBack(&g, c, i)
		case e.Kind == history.Deciding:
			c.decides(e)
		case e.Kind == history.Decided:
			if r := c.gave[e.Message()]; r != nil && r.open > 0 {
				r.open--
				r.committed = e.At
			}
		}
	}
	return g
}

// giver is a consumer that may give messages back, of which the prefetch is known.
type giver struct {
	prefetch  int
	delivered int
	settling  []time.Duration // when settlements began that have made room for nothing yet
	gave      map[history.Message]*gift
	// newest is the last delivery that nobody had before, and room when the settlement began that made room for it; 0:
	// not known, or there was room from the beginning.
	newest int
	room   time.Duration
	// last is the return that began last, of those that came back.
	last gift
}

// gift is a message that a consumer has given back, at least once.
type gift struct {
	message   history.Message
	acquired  uint32        // before its last delivery to the consumer
	held      bool          // it was delivered, and not settled since
	open      int           // returns whose commit was not seen
	began     time.Duration // the last one
	committed time.Duration
}

// decides records that a settlement begins.
func (c *giver) decides(e *history.Event) {
	c.settling = append(c.settling, e.At)
	r := c.gave[e.Message()]
	if r == nil || !r.held {
		return
	}
	if r.held = false; e.Outcome == history.Requeue || e.Outcome == history.Return {
		r.open, r.began = r.open+1, e.At
		return
	}
	delete(c.gave, e.Message())
}

// givenBack takes the delivery of an event, and judges it if the consumer gave that message back before.
func (l *ledger) givenBack(g *Guarantee, c *giver, i int) {
	e := &l.events[i]
	since := time.Duration(0)
	if c.delivered++; c.delivered > c.prefetch && len(c.settling) > 0 {
		since, c.settling = c.settling[0], c.settling[1:]
	}
	p := place{e.Queue, e.Message()}
	r := c.gave[p.Message]
	switch {
	case r == nil:
		r = &gift{message: p.Message}
		c.gave[p.Message] = r
	case r.began > 0 && r.open == 0 && !r.held && e.Acquired == r.acquired+1:
		g.Checked++
		switch {
		case c.room > r.committed:
			g.Broken = append(g.Broken, l.finding(p, i, "delivered again after %s, which nobody had before, and which was chosen %v after this one was back, at the earliest",
				l.events[c.newest].Message(), c.room-r.committed))
		case c.last.began > r.committed:
			g.Broken = append(g.Broken, l.finding(p, i, "delivered again after %s, which was given back %v later", c.last.message, c.last.began-r.committed))
		}
		if r.began > c.last.began {
			c.last = *r
		}
	}
	r.acquired, r.held = e.Acquired, true
	if e.Acquired == 0 {
		c.newest, c.room = i, since
	}
}
