package stats

import (
	"cmp"
	"slices"
	"strings"
)

// Order is what the busiest queues have most of.
type Order string

// The orders. ByRate counts messages stored and delivered each second.
const (
	ByRate        Order = "rate"
	ByReady       Order = "ready"
	ByUnacked     Order = "unacked"
	ByDeadLetters Order = "dead_letters"
)

// Orders returns all orders.
func Orders() []Order { return []Order{ByRate, ByReady, ByUnacked, ByDeadLetters} }

// of returns what a queue has of it.
func (o Order) of(q *Queue) float64 {
	switch o {
	case ByReady:
		return float64(q.Stats.Ready)
	case ByUnacked:
		return float64(q.Stats.Unsettled)
	case ByDeadLetters:
		return float64(q.Stats.Backlog)
	case ByRate:
	}
	return q.Rates.Publish + q.Rates.Deliver
}

// Top returns the queues that have most, at most limit, and how many there are whose vhost/name contains filter, in any
// case. Equal ones are in the order of their names, so that a view of them does not flicker.
func (q *Queues) Top(by Order, filter string, limit int) (top []*Queue, matching int) {
	filter = strings.ToLower(filter)
	for _, x := range q.Of {
		if filter == "" || strings.Contains(strings.ToLower(x.VHost+"/"+x.Name), filter) {
			top = append(top, x)
		}
	}
	slices.SortFunc(top, func(a, b *Queue) int {
		return cmp.Or(cmp.Compare(by.of(b), by.of(a)), cmp.Compare(a.VHost, b.VHost), cmp.Compare(a.Name, b.Name))
	})
	return top[:min(limit, len(top))], len(top)
}
