package wal

import (
	"testing"
	"time"
)

// How long a write may take follows from the slow writes of the last minute, if there was
// more than one.
func TestPace(t *testing.T) {
	type write struct{ at, took time.Duration }
	const ms, s = time.Millisecond, time.Second
	for _, c := range []struct {
		name   string
		writes []write
		now    time.Duration
		limit  time.Duration
	}{
		{"nothing was written", nil, 0, LeastStall},
		{"quick", []write{{0, ms}, {s, 20 * ms}, {6 * s, 149 * ms}, {11 * s, 150 * ms}}, 12 * s, LeastStall},
		{"slow once", []write{{0, ms}, {6 * s, 900 * ms}, {11 * s, ms}}, 12 * s, LeastStall},
		{"slow twice", []write{{0, 900 * ms}, {6 * s, 900 * ms}, {11 * s, ms}}, 12 * s, LeastStall},
		{"three times at nearly the same moment", []write{{0, ms}, {5 * s, 900 * ms}, {7 * s, 800 * ms}, {9 * s, 800 * ms}}, 10 * s, LeastStall},
		{"three times", []write{{0, 300 * ms}, {6 * s, 250 * ms}, {11 * s, 200 * ms}}, 12 * s, 600 * ms},
		{"three times, the slowest last", []write{{0, 200 * ms}, {6 * s, 250 * ms}, {11 * s, 300 * ms}}, 12 * s, 600 * ms},
		{"more often", []write{{0, 200 * ms}, {6 * s, 250 * ms}, {11 * s, 300 * ms}, {16 * s, 220 * ms}}, 17 * s, 660 * ms},
		{"the slowest of each slot counts", []write{{0, 200 * ms}, {s, ms}, {6 * s, 300 * ms}, {7 * s, ms}, {11 * s, 300 * ms}}, 12 * s, 600 * ms},
		{"so slow that three times as slow is too long", []write{{0, s}, {6 * s, s}, {12 * s, s}}, 13 * s, MostStall},
		{"hung", []write{{0, MostStall}, {20 * s, time.Hour}, {30 * s, 2 * s}, {40 * s, 3 * s}}, 41 * s, LeastStall},
		{"remembered", []write{{0, 300 * ms}, {6 * s, 300 * ms}, {11 * s, 200 * ms}}, 59 * s, 600 * ms},
		{"one of them is forgotten", []write{{0, 300 * ms}, {6 * s, 300 * ms}, {11 * s, 200 * ms}}, 60 * s, LeastStall},
		{"all is forgotten", []write{{0, 300 * ms}, {6 * s, 300 * ms}, {11 * s, 200 * ms}}, 1000 * time.Hour, LeastStall},
		{"slow long after", []write{{0, 300 * ms}, {6 * s, 300 * ms}, {100 * s, 300 * ms}}, 101 * s, LeastStall},
	} {
		var p pace
		for _, w := range c.writes {
			p.observe(w.at, w.took)
		}
		if got := p.limit(c.now); got != c.limit {
			t.Errorf("%s: a write may take %v, want %v", c.name, got, c.limit)
		}
	}
}
