package check

import (
	"time"

	"github.com/quorate/quorate/chaos/history"
)

// standsFor is how long nothing may come out of a queue at the end that still has messages: its
// consumers are there, and all faults are healed.
const standsFor = 20 * time.Second

// handedOut: in the end consumers get all that a queue holds (DEL-2). A queue that still hands
// messages out when the run ends is slow, which says nothing.
func handedOut(l *ledger) Guarantee {
	g := Guarantee{Name: "consumers get all that a queue holds", Rule: "DEL-2, G3"}
	last := map[string]time.Duration{}
	for i := range l.events {
		switch e := &l.events[i]; e.Kind {
		case history.Delivered, history.Confirmed, history.Healed, history.Led:
			last[e.Queue] = e.At // confirms and faults name no queue, and count for all
		case history.Drained:
			g.Checked++
		case history.Left:
			since := max(last[e.Queue], last[""])
			switch stands := e.At - since; {
			case e.Messages == 0: // it could not be asked, or no message is in it
			case stands >= standsFor:
				g.Checked++
				g.Broken = append(g.Broken, Finding{At: e.At, Queue: e.Queue, Why: "it has messages, and handed none out for " + stands.Round(time.Second).String()})
			default:
				g.Missing = "queue " + e.Queue + " was not drained"
			}
		default:
		}
	}
	return g
}
