package check

import (
	"time"

	"github.com/quorate/quorate/chaos/history"
)

// SkewLimit is how much too early or too late a message may expire or become ready (G9).
const SkewLimit = time.Second

// LateLimit is how much later than due a message may come as expired where no fault has lasted, on its way or so long
// before, on a quiet machine. It has to be moved to its target, and to wait there for its consumer. A message that was
// assigned in time may come so much later than its expiry.
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

// onTime: apart from the skew limit, no message is assigned after its expiry, dead-lettered as expired before it, or
// delivered before its delay has passed (TTL-2, DLY-1, G9). A message that was assigned in time may be delivered late, so
// its earliest possible assignment counts. Deliveries while a fault lasts are not judged: they may have waited on their
// way.
func onTime(l *ledger) Guarantee {
	g, _ := l.expiries()
	return g
}

// comesSoon: what expires is in its target soon, and what was assigned before its expiry comes soon (TTL-2, G9): within
// LateLimit, or longer by the factor for pauses.
func comesSoon(l *ledger) Guarantee {
	_, g := l.expiries()
	return g
}

// expiries returns what onTime and comesSoon find.
func (l *ledger) expiries() (g, late Guarantee) {
	g = Guarantee{Name: "nothing expires early or is delivered late", Rule: "TTL-2, DLY-1, G9"}
	late = Guarantee{Name: "what expires comes soon", Rule: "TTL-2, G9"}
	limit := l.lateLimit()
	room := l.roomSince()
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
			end := max(l.events[f.confirmed].At, sent.At+sent.Delay) + ttl
			late.Checked++
			switch since := max(room[i], l.assignable(f, i)); {
			case since > end+SkewLimit:
				g.Broken = append(g.Broken, l.finding(p, i, "assigned to %s %v after its expiry, at the earliest", e.Consumer, since-end))
			case e.At > end+limit:
				late.Broken = append(late.Broken, l.finding(p, i, "delivered %v after its expiry; the limit is %v", rounded(e.At-end), rounded(limit)))
			}
		}
	}
	l.expiredInTime(&g, &late)
	return g, late
}

// lateLimit is LateLimit, longer on a busy machine.
func (l *ledger) lateLimit() time.Duration { return l.busy(LateLimit) }

// roomSince returns, by the event of a delivery from a queue with a TTL, the time before which its consumer had no room
// for it, where that is known.
func (l *ledger) roomSince() map[int]time.Duration {
	out := map[int]time.Duration{}
	for _, r := range l.served(func(q history.Queue) bool { return q.TTL > 0 }) {
		for k, i := range r.deliveries {
			if since, known := r.room(k); known {
				out[i] = since
			}
		}
	}
	return out
}

// assignable returns the time before which a delivery cannot have been assigned: its consumer was not there, or the one
// that had the message before had not given it back. 0: no such time is known.
func (l *ledger) assignable(f *fate, delivery int) time.Duration {
	e := &l.events[delivery]
	since := l.asked[e.Consumer]
	for _, i := range f.deliveries {
		had := &l.events[i]
		if i >= delivery || had.Acquired+1 != e.Acquired {
			continue
		}
		if lost, is := l.lost[had.Consumer]; is && lost <= e.At+noticed {
			continue // which may have freed the message before
		}
		for _, j := range f.deciding {
			d := &l.events[j]
			if j > i && j < delivery && d.Consumer == had.Consumer && (d.Outcome == history.Requeue || d.Outcome == history.Return) {
				since = max(since, d.At)
				break
			}
		}
	}
	return since
}

// expiredInTime adds to the guarantees that dead letters expired neither early nor much too late: one that
// expired in several queues, one after another, has taken the time of all.
func (l *ledger) expiredInTime(g, late *Guarantee) {
	limit := l.lateLimit()
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
		if len(e.Deaths) > expired || l.faulty(sent.At-LateLimit, e.At) {
			continue
		}
		late.Checked++
		if e.At > due+limit {
			late.Broken = append(late.Broken, l.finding(p, f.deliveries[0], "came %v after it was due to have expired; the limit is %v", rounded(e.At-due), rounded(limit)))
		}
	}
}
