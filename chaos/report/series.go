package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorate/quorate/chaos/history"
)

// maxPoints bounds the points of a series: a longer history has longer steps.
const maxPoints = 480

// minStep is the shortest step.
const minStep = time.Second

// Series are figures of each step of time.
type Series struct {
	Step                 time.Duration
	Confirms, Deliveries []float64 // per second
	P50, P99             []float64 // milliseconds from publish to confirm; 0: nothing was confirmed
}

// series counts what was confirmed and delivered in each step.
func series(events []history.Event, took time.Duration) Series {
	step := max(minStep, (took/maxPoints + minStep - 1).Truncate(minStep))
	n := int(took/step) + 1
	s := Series{Step: step, Confirms: make([]float64, n), Deliveries: make([]float64, n), P50: make([]float64, n), P99: make([]float64, n)}
	waits := make([][]time.Duration, n)
	for i := range events {
		at := min(int(events[i].At/step), n-1)
		switch e := &events[i]; e.Kind {
		case history.Confirmed:
			s.Confirms[at] += 1 / step.Seconds()
			waits[at] = append(waits[at], e.At-e.Sent)
		case history.Delivered:
			s.Deliveries[at] += 1 / step.Seconds()
		default:
		}
	}
	for i, w := range waits {
		if len(w) > 0 {
			slices.Sort(w)
			s.P50[i], s.P99[i] = milliseconds(quantile(w, 50)), milliseconds(quantile(w, 99))
		}
	}
	return s
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// bands returns who led which queue when. What is shorter than a thousandth of the run nobody sees.
func bands(events []history.Event, took time.Duration) []Band {
	var out []Band
	open := map[string]int{}
	for i := range events {
		e := &events[i]
		if e.Kind != history.Leader {
			continue
		}
		if j, is := open[e.Queue]; is {
			b := &out[j]
			b.To = e.At
			if e.At-b.From < took/1000 { // becomes the next one
				b.Node = e.Node
				continue
			}
		}
		open[e.Queue] = len(out)
		out = append(out, Band{Queue: e.Queue, Node: e.Node, From: e.At, To: took})
	}
	for _, j := range open {
		out[j].To = took
	}
	slices.SortStableFunc(out, func(a, b Band) int { return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.From, b.From)) })
	return out
}
