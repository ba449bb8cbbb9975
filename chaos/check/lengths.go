package check

import (
	"fmt"

	"github.com/quorate/quorate/chaos/history"
)

// lengthsAddUp: a queue that is not empty at the end holds at least what was confirmed and nobody
// began to settle, and at most what was published to it and not settled. What may have expired,
// failed too often, been moved or dead-lettered into the queue is left out of what can be said.
// Empty queues are for noLoss.
func lengthsAddUp(l *ledger) Guarantee {
	g := Guarantee{Name: "the lengths of queues add up", Rule: "PUB-5, PUB-7"}
	for i := range l.events {
		e := &l.events[i]
		if e.Kind != history.Left || !l.counted(e) {
			continue
		}
		g.Checked++
		least, most := l.held(e.Queue)
		at := Finding{At: e.At, Queue: e.Queue}
		if e.Messages < least {
			g.Broken = append(g.Broken, at.because("holds %d messages; %d were confirmed and never taken", e.Messages, least))
		}
		if len(l.deadOf[e.Queue]) == 0 && e.Messages > most {
			g.Broken = append(g.Broken, at.because("holds %d messages; only %d can be there", e.Messages, most))
		}
	}
	return g
}

// counted reports whether the event has how many messages a queue holds, and whether that follows from
// the history.
func (l *ledger) counted(e *history.Event) bool {
	return (e.Note == "" || e.Note == "<nil>") && l.queues[e.Queue] != nil && !l.spec(e.Queue).Moved && !l.deleted[e.Queue]
}

// held returns how many messages a queue holds at least and at most.
func (l *ledger) held(queue string) (least, most uint64) {
	for _, p := range l.places {
		f := l.fates[p]
		if p.queue != queue || f.published < 0 {
			continue
		}
		gone := l.settled(f, history.Ack) || l.settled(f, history.Discard)
		perhaps := l.ttl(f, queue) > 0 || l.spec(queue).DeliveryLimit >= 0 && l.settled(f, history.Requeue)
		if f.confirmed >= 0 && !gone && !perhaps {
			least++
		}
		if f.refused < 0 && !l.committed(f) {
			most++
		}
	}
	return least, most
}

// committed reports whether the message was settled for good, for certain.
func (l *ledger) committed(f *fate) bool {
	for _, i := range f.decided {
		if o := l.events[i].Outcome; o == history.Ack || o == history.Discard {
			return true
		}
	}
	return false
}

// because completes a finding.
func (f Finding) because(format string, args ...any) Finding {
	f.Why = fmt.Sprintf(format, args...)
	return f
}
