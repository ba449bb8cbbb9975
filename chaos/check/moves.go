package check

import "github.com/quorate/quorate/chaos/history"

// movedOnce: where operators move messages among the queues of a family, and redrive dead letters,
// each message is in one of them at a time (G-13). Every time that it comes as new is a round: all
// rounds but the last end with a discard, after which it was moved; the last ends with an ack.
func movedOnce(l *ledger) Guarantee {
	g := Guarantee{Name: "operators' moves lose and double nothing", Rule: "G-13"}
	undrained := map[string]string{} // family → a queue of it
	for name, q := range l.queues {
		if q.Family != "" && !l.drained[name] {
			undrained[q.Family] = name
		}
	}
	courses, order := l.courses()
	for _, p := range order {
		if name := undrained[p.queue]; name != "" {
			g.Missing = "queue " + name + " was not drained"
			continue
		}
		g.Checked++
		rounds := courses[p].rounds
		if len(rounds) == 0 {
			g.Broken = append(g.Broken, l.finding(courses[p].place, courses[p].confirmed, "confirmed, and never delivered"))
		}
		for n, r := range rounds {
			switch last := n == len(rounds)-1; {
			case last && r.end != history.Ack:
				g.Broken = append(g.Broken, l.finding(place{r.queue, p.Message}, r.event, "its last consumer did not ack it (%q), and it is in no queue", r.end))
			case !last && r.end != history.Discard:
				next := rounds[n+1]
				g.Broken = append(g.Broken, l.finding(place{next.queue, p.Message}, next.event, "is there as new, though nobody has discarded it from %s (%q)", r.queue, r.end))
			}
		}
	}
	return g
}

// round is the history of a message from one delivery as new to the next.
type round struct {
	event int
	queue string
	end   history.Outcome // decided last
}

// course is the whole history of a message in a family of queues.
type course struct {
	place
	confirmed int // the event
	rounds    []round
}

// in returns the last round in the queue, or nil.
func (c *course) in(queue string) *round {
	for n := len(c.rounds) - 1; n >= 0; n-- {
		if c.rounds[n].queue == queue {
			return &c.rounds[n]
		}
	}
	return nil
}

// courses returns them by family and message, for messages that were confirmed or delivered.
func (l *ledger) courses() (courses map[place]*course, order []place) {
	courses = map[place]*course{}
	at := func(p place) *course {
		key := place{l.spec(p.queue).Family, p.Message}
		if courses[key] == nil {
			courses[key] = &course{place: p}
			order = append(order, key)
		}
		return courses[key]
	}
	for _, p := range l.places {
		if f := l.fates[p]; l.spec(p.queue).Family != "" && f.confirmed >= 0 {
			at(p).confirmed = f.confirmed
		}
	}
	for i := range l.events {
		e := &l.events[i]
		if e.Publisher == 0 || l.spec(e.Queue).Family == "" {
			continue
		}
		c := at(place{e.Queue, e.Message()})
		switch {
		case e.Kind == history.Delivered && (e.Acquired == 0 || c.in(e.Queue) == nil): // its first consumer did not read it
			c.rounds = append(c.rounds, round{event: i, queue: e.Queue})
		case e.Kind == history.Deciding:
			if r := c.in(e.Queue); r != nil {
				r.end = e.Outcome
			}
		default:
		}
	}
	return courses, order
}
