package amqp

// confirmed is what a channel in confirm mode has confirmed to its client: all publishes up to low, and
// those in above.
type confirmed struct {
	low   uint64
	above map[uint64]bool
}

// run is one ack or nack: for one publish or, with multiple, for all publishes up to it that are
// still unanswered.
type run struct {
	tag      uint64
	multiple bool
	refused  bool
	low      bool // all publishes below it are answered
}

// decide takes results by ascending tag and returns the acks and nacks to send. Each publish is
// answered exactly once. Neighbours with the same result become one run if all publishes below them
// are answered.
func (t *confirmed) decide(results []result) []run {
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
