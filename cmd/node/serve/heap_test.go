package serve

import (
	"slices"
	"testing"
)

// Each step is so many checks alike, and what the last of them orders; none before it orders anything.
func TestHeap(t *testing.T) {
	t.Parallel()
	type step struct {
		checks int
		used   float64
		hashed bool
		want   heapStep
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"rest is for long enough, and once", []step{{restAfter, 0.01, false, heapRests}, {1000, 0.01, false, heapStays}}},
		{"work keeps from rest", []step{{1000, restBelow, false, heapStays}, {restAfter, 0, false, heapRests}}},
		{"a busy moment begins the wait anew", []step{{restAfter - 1, 0, false, heapStays}, {1, 1, false, heapStays}, {restAfter, 0, false, heapRests}}},
		{"work just after rest begins", []step{{restAfter, 0, false, heapRests}, {1, 1, false, heapWorks}, {restAfter, 0, false, heapRests}}},
		{"a little work is rest", []step{{restAfter, 0, false, heapRests}, {1000, workAbove, false, heapStays}, {1, 0.11, false, heapWorks}}},
		{"work after rest, for long", []step{{restAfter, 0, false, heapRests}, {1, 0.5, false, heapWorks}, {1000, 0.5, false, heapStays}}},
		{"the last hash of several", []step{{1000, 1, false, heapStays}, {3, 1, true, heapStays}, {hashesOver, 1, false, heapCollects}, {1000, 1, false, heapStays}}},
		{"hashes without end", []step{{1000, 1, true, heapStays}, {hashesOver, 1, false, heapCollects}}},
		{"a hash at rest", []step{{restAfter, 0, false, heapRests}, {1, 0.08, true, heapStays}, {hashesOver, 0, false, heapCollects}}},
		{"a hash before rest", []step{{restAfter - 2, 0, false, heapStays}, {1, 0, true, heapStays}, {1, 0, false, heapRests}, {100, 0, false, heapStays}}},
		{"a hash while rest begins", []step{{restAfter, 0, false, heapRests}, {1, 1, true, heapWorks}, {hashesOver, 0, false, heapCollects}}},
	} {
		var h heapWatch
		for i, s := range c.steps {
			var got []heapStep
			for range s.checks {
				got = append(got, h.check(s.used, s.hashed))
			}
			want := append(make([]heapStep, s.checks-1), s.want)
			if !slices.Equal(got, want) {
				t.Errorf("%s: step %d: check %d of %d orders other than %d: %v", c.name, i+1, 1+firstDifference(got, want), s.checks, s.want, got)
			}
		}
	}
}

// While a step is taken, and at the check that finds it taken, nothing else is decided.
func TestStepsAreTakenBeside(t *testing.T) {
	t.Parallel()
	var b beside
	if b.begin(heapStays); !b.over() {
		t.Error("a heap that stays takes time")
	}
	b.begin(heapCollects)
	<-b.done
	if b.over() {
		t.Error("the time of a collection counts")
	}
	if !b.over() {
		t.Error("a collection does not end")
	}
}

// firstDifference is the first index at which two lists of one length differ.
func firstDifference(a, b []heapStep) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return len(a)
}
