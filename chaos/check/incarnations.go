package check

import "github.com/quorate/quorate/chaos/history"

// newQueue: a queue that is declared again after it was deleted is a new one: nothing that was
// confirmed before the delete comes from it. Consumers that were opened after the delete see
// the new one alone.
func newQueue(l *ledger) Guarantee {
	g := Guarantee{Name: "a queue that is declared again is a new one", Rule: "Q-1"}
	deleted := map[string][]*history.Operation{} // certain deletes by queue
	opened := map[string]int{}                   // consumer → event
	for i := range l.events {
		switch e := &l.events[i]; e.Kind {
		case history.Register:
			if e.Op.Write && e.Op.Value == "" && !e.Op.Uncertain && l.deleted[e.Op.Name] {
				deleted[e.Op.Name] = append(deleted[e.Op.Name], e.Op)
			}
		case history.Opened:
			opened[e.Consumer] = i
		default:
		}
	}
	for _, p := range l.places {
		f := l.fates[p]
		if len(deleted[p.queue]) == 0 || f.confirmed < 0 {
			continue
		}
		for _, i := range f.deliveries {
			at, known := opened[l.events[i].Consumer]
			if !known {
				continue
			}
			g.Checked++
			for _, op := range deleted[p.queue] {
				if l.events[f.confirmed].At < op.Call && op.Return < l.events[at].At {
					g.Broken = append(g.Broken, l.finding(p, i, "delivered to %s, which was opened %v after the queue of that time was deleted",
						l.events[i].Consumer, l.events[at].At-op.Return))
					break
				}
			}
		}
	}
	return g
}
