package amqp

// told is what a channel in confirm mode has told of its publishes: all up to low, and of
// those above the ones in above.
type told struct {
	low   uint64
	above map[uint64]bool
}

// run is one ack or nack: of one publish or, with multiple, of all up to it that were not
// told before.
type run struct {
	tag      uint64
	multiple bool
	refused  bool
	low      bool // all below it is told
}

// decide takes results by ascending tag and returns what to tell. Each publish is told
// exactly once: neighbours that had the same fate are one run if all below them is told.
func (t *told) decide(results []result) []run {
	var runs []run
	for _, r := range results {
		if r.tag != t.low+1 {
			if t.above == nil {
				t.above = make(map[uint64]bool)
			}
			t.above[r.tag] = true
			runs = append(runs, run{tag: r.tag, refused: r.refused})
			continue
		}
		if n := len(runs); n > 0 && runs[n-1].low && runs[n-1].tag+1 == r.tag && runs[n-1].refused == r.refused {
			runs[n-1].tag, runs[n-1].multiple = r.tag, true
		} else {
			runs = append(runs, run{tag: r.tag, refused: r.refused, low: true})
		}
		for t.low++; t.above[t.low+1]; t.low++ {
			delete(t.above, t.low+1)
		}
	}
	return runs
}
