package check

import (
	"time"
)

// SkewLimit is how much too early or too late a message may expire or become ready (G9).
const SkewLimit = time.Second

// LateLimit is how much later than due a message may come as expired where no fault has lasted, on its way or so long
// before. It has to be moved to its target, and to wait there for its consumer.
const LateLimit = 5 * time.Second

// ttl returns the TTL in force for a message in a queue (TTL-1); 0: none.
func (l *ledger) ttl(f *fate, queue string) time.Duration {
	ttl := l.spec(queue).TTL
	if f != nil && f.published >= 0 {
		if own := l.events[f.published].TTL; own > 0 && (ttl == 0 || own < ttl) {
			ttl = own
		}
	}
	return ttl
}

// onTime: no message is delivered after its expiry, dead-lettered as expired before it or long after, or
// delivered before its delay has passed, but for the skew limit (TTL-2, DLY-1, G9). Deliveries
// while a fault lasts are not judged: they may have waited on their way.
func onTime(l *ledger) Guarantee {
	g := Guarantee{Name: "nothing expires early or is delivered late", Rule: "TTL-2, DLY-1, G9"}
	for _, p := range l.places {
		f := l.fates[p]
		if f.published < 0 {
			continue
		}
		sent := &l.events[f.published]
		ttl := l.ttl(f, p.queue)
		if ttl == 0 && sent.Delay == 0 {
			continue
		}
		for _, i := range f.deliveries {
			e := &l.events[i]
			g.Checked++
			if e.At < sent.At+sent.Delay-SkewLimit {
				g.Broken = append(g.Broken, l.finding(p, i, "delivered %v after it was published, its delay is %v", e.At-sent.At, sent.Delay))
			}
			if ttl == 0 || f.confirmed < 0 || l.faulty(sent.At, e.At) {
				continue
			}
			if end := max(l.events[f.confirmed].At, sent.At+sent.Delay) + ttl; e.At > end+SkewLimit {
				g.Broken = append(g.Broken, l.finding(p, i, "delivered %v after its expiry", e.At-end))
			}
		}
	}
	l.expiredInTime(&g)
	return g
}

// expiredInTime adds to the guarantee that dead letters expired neither early nor much too late: one that
// expired in several queues, one after another, has taken the time of all.
func (l *ledger) expiredInTime(g *Guarantee) {
	for _, p := range l.places {
		f := l.fates[p]
		if len(f.deliveries) == 0 || len(l.events[f.deliveries[0]].Deaths) == 0 || l.spec(p.queue).Moved {
			continue
		}
		e := &l.events[f.deliveries[0]]
		first := l.fates[place{e.Deaths[len(e.Deaths)-1].Queue, p.Message}]
		if first == nil || first.published < 0 {
			continue
		}
		sent := &l.events[first.published]
		due, expired := sent.At+sent.Delay, 0
		for _, d := range e.Deaths {
			if d.Reason == "expired" {
				expired++
				due += l.ttl(l.fates[place{d.Queue, p.Message}], d.Queue)
			}
		}
		if expired == 0 {
			continue
		}
		g.Checked++
		if e.At < due-SkewLimit {
			g.Broken = append(g.Broken, l.finding(p, f.deliveries[0], "expired %v early", due-e.At))
		}
		if len(e.Deaths) == expired && e.At > due+LateLimit && !l.faulty(sent.At-LateLimit, e.At) {
			g.Broken = append(g.Broken, l.finding(p, f.deliveries[0], "came %v after it was due to have expired", e.At-due))
		}
	}
}
