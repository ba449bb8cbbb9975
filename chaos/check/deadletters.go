package check

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/chaos/history"
)

// deadLettersOnce: a dead letter arrives once for each time that its message left a queue, by the
// reason that the history shows, with its death counted (DL-21, DL-25, DL-30), or not at all where
// that is allowed (DL-12). That none is missing is for noLoss, and what comes back to where it died
// is for deathsCounted.
func deadLettersOnce(l *ledger) Guarantee {
	g := Guarantee{Name: "dead letters arrive exactly once", Rule: "DL-12, DL-21, DL-25"}
	for _, p := range l.places {
		f := l.fates[p]
		sources := l.sourcesOf(p)
		if len(sources) == 0 || f.expected || len(f.deliveries) == 0 || l.spec(p.queue).Moved || l.comesBack(p.queue) {
			continue
		}
		g.Checked++
		last := f.deliveries[len(f.deliveries)-1]
		if n := l.asNew(f); n > len(sources) {
			g.Broken = append(g.Broken, l.finding(p, last, "dead-lettered %d times, from %d queues", n, len(sources)))
		}
		if why := l.unexplained(p.Message, f, sources); why != "" {
			g.Broken = append(g.Broken, l.finding(p, last, "%s", why))
		}
	}
	return g
}

// sourcesOf returns the queues that the message was in and whose dead letters come here.
func (l *ledger) sourcesOf(p place) []string {
	var out []string
	for _, q := range l.deadOf[p.queue] {
		if l.passed(place{q, p.Message}) {
			out = append(out, q)
		}
	}
	return out
}

// unexplained returns why the deaths of the message are not as the history has it; empty: they are.
func (l *ledger) unexplained(m history.Message, f *fate, sources []string) string {
	e := &l.events[f.deliveries[0]]
	if len(e.Deaths) == 0 { // its client does not read them
		for _, q := range sources {
			source := l.fates[place{q, m}]
			if source == nil || l.settled(source, history.Discard) || l.ttl(source, q) > 0 || l.spec(q).DeliveryLimit >= 0 {
				return ""
			}
		}
		return "dead-lettered, though nobody discarded it"
	}
	to := e.Queue
	for _, d := range e.Deaths { // from the newest on, which brought it here
		if why := l.unlikely(m, d); why != "" {
			return why
		}
		if !slices.Contains(l.deadOf[to], d.Queue) {
			return fmt.Sprintf("came to %s from %s, whose dead letters go elsewhere", to, d.Queue)
		}
		to = d.Queue
	}
	return ""
}

// unlikely returns why a message cannot have died so; empty: it can.
func (l *ledger) unlikely(m history.Message, d history.Death) string {
	if !l.passed(place{d.Queue, m}) {
		return fmt.Sprintf("died in %s, where it never was", d.Queue)
	}
	if d.Count != 1 && !l.comesBack(d.Queue) {
		return fmt.Sprintf("died %d times of %s in %s", d.Count, d.Reason, d.Queue)
	}
	source := l.fates[place{d.Queue, m}] // nil: nobody saw it there
	switch {
	case d.Reason == "rejected" && (source == nil || !l.settled(source, history.Discard)):
		return "dead-lettered as rejected, though nobody discarded it"
	case d.Reason == "expired" && l.ttl(source, d.Queue) == 0:
		return "dead-lettered as expired, without a TTL"
	case d.Reason == "delivery_limit" && l.spec(d.Queue).DeliveryLimit < 0:
		return "dead-lettered by a delivery limit, which its queue does not have"
	}
	return ""
}
