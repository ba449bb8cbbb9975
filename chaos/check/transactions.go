package check

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/chaos/history"
)

// transaction is what a history has of one.
type transaction struct {
	at       int     // index of its first event
	outputs  []place // that it published
	replaced []place // messages in whose place that was, as one decision (G-22)
}

// wholeTransactions: what a transaction publishes to one queue is stored as a whole or not at all
// (PUB-9). If it replaces messages, that holds for all queues together, and of all transactions that tried to replace
// a message, one succeeded (G-22).
func wholeTransactions(l *ledger) Guarantee {
	g := Guarantee{Name: "transactions are whole", Rule: "PUB-9, G-22"}
	all, numbers := l.transactions()
	replacedBy := map[place][]int{} // the transactions that are stored
	var inputs []place
	for _, n := range numbers {
		t := all[n]
		for _, p := range t.replaced {
			if _, seen := replacedBy[p]; !seen {
				replacedBy[p] = nil
				inputs = append(inputs, p)
			}
		}
		stored, all, undrained := l.stored(t)
		if undrained != "" {
			g.Missing = "queue " + undrained + " was not drained"
			continue
		}
		g.Checked++
		for _, why := range l.parts(t, len(t.replaced) > 0) {
			g.Broken = append(g.Broken, l.finding(t.outputs[0], t.at, "transaction %d: %s", n, why))
		}
		if all && stored > 0 {
			for _, p := range t.replaced {
				replacedBy[p] = append(replacedBy[p], n)
			}
		}
	}
	for _, p := range inputs {
		if !l.drained[p.queue] {
			g.Missing = "queue " + p.queue + " was not drained"
			continue
		}
		g.Checked++
		f := l.fates[p]
		if by := replacedBy[p]; len(by) != 1 {
			g.Broken = append(g.Broken, l.finding(p, f.deciding[0], "replaced by %d transactions: %v", len(by), by))
		}
	}
	return g
}

// transactions returns all of the history, with outputs, and their numbers in order.
func (l *ledger) transactions() (all map[int]*transaction, numbers []int) {
	all = map[int]*transaction{}
	for i := range l.events {
		e := &l.events[i]
		if e.Transaction == 0 {
			continue
		}
		t := all[e.Transaction]
		if t == nil {
			t = &transaction{at: i}
			all[e.Transaction] = t
			numbers = append(numbers, e.Transaction)
		}
		switch {
		case e.Kind == history.Published:
			for _, q := range e.Queues {
				t.outputs = append(t.outputs, place{q, e.Message()})
			}
		case e.Kind == history.Deciding && e.Outcome == history.Replace:
			t.replaced = append(t.replaced, place{e.Queue, e.Message()})
		default:
		}
	}
	numbers = slices.DeleteFunc(numbers, func(n int) bool { return len(all[n].outputs) == 0 })
	return all, numbers
}

// stored counts the outputs that came to a consumer, and reports whether all did; undrained names
// a queue of which that is unknown.
func (l *ledger) stored(t *transaction) (stored int, all bool, undrained string) {
	for _, p := range t.outputs {
		if !l.drained[p.queue] {
			return 0, false, p.queue
		}
		if l.isIn(p.queue, p.Message) {
			stored++
		}
	}
	return stored, stored == len(t.outputs), ""
}

// parts returns why a transaction is not whole: in each queue, or in all together.
func (l *ledger) parts(t *transaction, together bool) []string {
	type count struct{ stored, of int }
	byQueue := map[string]*count{}
	var queues []string
	for _, p := range t.outputs {
		q := p.queue
		if together {
			q = "all queues"
		}
		c := byQueue[q]
		if c == nil {
			c = &count{}
			byQueue[q] = c
			queues = append(queues, q)
		}
		c.of++
		if l.isIn(p.queue, p.Message) {
			c.stored++
		}
	}
	var out []string
	for _, q := range queues {
		if c := byQueue[q]; c.stored != 0 && c.stored != c.of {
			out = append(out, fmt.Sprintf("%d of %d messages are in %s", c.stored, c.of, q))
		}
	}
	return out
}
