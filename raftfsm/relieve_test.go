package raftfsm

import "testing"

// What a snapshot would let go of is judged by the bytes that the machine holds.
func TestWeigh(t *testing.T) {
	for _, x := range []struct {
		what           string
		last           footprint
		since, held    uint64
		needed, excess int64
	}{
		{"nothing yet", footprint{}, 0, 0, 0, 0},
		{"small messages came: their entries are larger", footprint{}, 1000, 400, 800, 200},
		{"large ones", footprint{}, 1000, 990, 1000, 0},
		{"they came and went", footprint{}, 1000, 0, 0, 1000},
		{"nothing has changed", footprint{machine: 10, log: 1000, held: 900}, 0, 900, 1010, 0},
		{"half has gone", footprint{machine: 10, log: 1000, held: 900}, 50, 450, 510, 550},
		{"all has gone", footprint{machine: 10, log: 1000, held: 900}, 50, 0, 10, 1050},
		{"as much came as went", footprint{machine: 10, log: 1000, held: 900}, 1000, 900, 1010, 1000},
	} {
		var c compaction
		c.last.Store(&x.last)
		c.bytes.Store(x.since)
		if needed, excess := c.weigh(x.held); needed != x.needed || excess != x.excess {
			t.Errorf("%s: %d needed, %d in excess, want %d and %d", x.what, needed, excess, x.needed, x.excess)
		}
	}
}
