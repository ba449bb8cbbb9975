package main

import (
	"testing"
	"time"
)

// The longest time between two confirms counts, from the last call on, and a time without a confirm at its end does once
// there is one again.
func TestGaps(t *testing.T) {
	var x gaps
	at := time.Now()
	for _, after := range []time.Duration{time.Second, 10 * time.Millisecond, 300 * time.Millisecond, 20 * time.Millisecond} {
		at = at.Add(after)
		x.add(at)
	}
	if n, gap := x.seen(), x.gap(); n != 4 || gap != 300*time.Millisecond {
		t.Errorf("%d confirms, longest gap %v", n, gap)
	}
	x.add(at.Add(2 * time.Second))
	if gap := x.gap(); gap != 2*time.Second {
		t.Errorf("the longest gap is %v", gap)
	}
	if gap := x.gap(); gap != 0 {
		t.Errorf("without a confirm since, the gap is %v", gap)
	}
}
