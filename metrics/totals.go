package metrics

import (
	"iter"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/quorumq"
)

// totals are the sums over the queues that a node leads, or over its members of queues. Those of counters never go back
// when a queue's leader moves or a member closes: each adds what it counted between two scrapes of this node, or all of it
// if its queue was made since the one before.
type totals[T any] struct {
	rows []row[T]

	mu    sync.Mutex
	sums  []float64 // of counters, by row
	last  map[uint64][]float64
	first bool   // no scrape yet
	newer uint64 // the greatest UID seen
}

// newTotals returns sums of rows that have counted nothing.
func newTotals[T any](rows []row[T]) totals[T] {
	return totals[T]{rows: rows, sums: make([]float64, len(rows)), last: map[uint64][]float64{}, first: true}
}

// collect shows the sums, and returns of how many there are and what it has shown, by row.
func (t *totals[T]) collect(ch chan<- prometheus.Metric, all iter.Seq2[uint64, T]) (n int, shown []float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	newer := t.newer
	gauges := make([]float64, len(t.rows))
	now := make(map[uint64][]float64, len(t.last))
	for uid, figures := range all {
		n++
		newer = max(newer, uid)
		was, known := t.last[uid]
		if !known {
			was = make([]float64, len(t.rows))
		}
		counts := known || uid > t.newer && !t.first
		for i := range t.rows {
			switch r, v := &t.rows[i], t.rows[i].value(figures); {
			case r.most:
				gauges[i] = max(gauges[i], v)
			case r.kind == prometheus.GaugeValue:
				gauges[i] += v
			default:
				if counts {
					t.sums[i] += max(v-was[i], 0)
				}
				was[i] = v
			}
		}
		now[uid] = was
	}
	t.last, t.newer, t.first = now, newer, false
	for i := range t.rows {
		v := gauges[i]
		if t.rows[i].kind == prometheus.CounterValue {
			v = t.sums[i]
		}
		t.rows[i].send(ch, v)
		gauges[i] = v
	}
	return n, gauges
}

// byUID yields queues as totals takes them.
func byUID(queues iter.Seq[Queue]) iter.Seq2[uint64, *quorumq.Overview] {
	return func(yield func(uint64, *quorumq.Overview) bool) {
		for q := range queues {
			if !yield(q.UID, q.Figures) {
				return
			}
		}
	}
}
