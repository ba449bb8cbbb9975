package serve

import (
	"runtime"
	"testing"

	"github.com/quorate/quorate/cluster/vitals"
)

// Each step is how many processors a node uses, for so many looks, and how many it has after them.
func TestProcessors(t *testing.T) {
	t.Parallel()
	type step struct {
		used  float64
		looks int
		want  int
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"at rest", []step{{0, 100, 1}}},
		{"what one has time for", []step{{0.7, 100, 1}}},
		{"more and more", []step{{0.71, 1, 2}, {1.41, 1, 4}, {4, 1, 8}, {5, 100, 8}}},
		{"a busy moment", []step{{0.8, 1, 2}, {0.1, fewerAfter - 1, 2}, {0.1, 1, 1}}},
		{"one by one", []step{{0.8, 1, 2}, {2, 1, 4}, {0.1, fewerAfter, 3}, {0.1, fewerAfter, 2}, {0.1, fewerAfter, 1}}},
		{"no calm for long enough", []step{{0.8, 1, 2}, {0.1, fewerAfter - 1, 2}, {1.4, 1, 2}, {0.1, fewerAfter - 1, 2}, {0.5, 1, 2}, {0.1, fewerAfter - 1, 2}}},
		{"too much for one, little for two", []step{{0.8, 1, 2}, {0.8, 100, 2}, {0.5, 100, 2}}},
	} {
		var p processors
		now := 1
		for i, s := range c.steps {
			for range s.looks {
				now = p.next(now, s.used)
			}
			if now != s.want {
				t.Errorf("%s: %d processors after step %d, want %d", c.name, now, i+1, s.want)
			}
		}
	}
}

// A node with many processors leaves them to Go, as one does whose environment sets their number.
func TestFollows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		environment string
		processors  int
		want        bool
	}{
		{"", 1, true}, {"", 2, true}, {"", 3, false}, {"", 64, false}, {"2", 2, false}, {"1", 64, false},
	} {
		if is := follows(c.environment, c.processors); is != c.want {
			t.Errorf("GOMAXPROCS=%q with %d processors: %t", c.environment, c.processors, is)
		}
	}
}

// A hash has a processor of its own from before it begins to the first check after its end, and does not count as the node's
// work. If the environment sets their number, it stays.
func TestProcessorsBeforeHashes(t *testing.T) {
	runtime.SetDefaultGOMAXPROCS()
	most := runtime.GOMAXPROCS(0)
	t.Cleanup(runtime.SetDefaultGOMAXPROCS)
	runtime.GOMAXPROCS(3)
	var p processors
	if p.hashing(1); runtime.GOMAXPROCS(0) != 3 || p.hashes != 0 {
		t.Errorf("%d processors where nobody watches, want 3", runtime.GOMAXPROCS(0))
	}
	p.watch()
	for i, s := range []struct {
		begun, under, checks int
		used                 float64
		want                 int
	}{
		{0, 0, 1, 0, 1},
		{1, 1, 0, 0, 2},
		{2, 2, 0, 0, 3},
		{1, 1, 0, 0, 3},
		{0, 2, 3, 2.6, 3},
		{0, 1, 1, 2.6, 2},
		{2, 2, 0, 0, 3},
		{0, 0, 1, 2.6, 1},
		{0, 0, 1, 0.8, min(2, most)},
	} {
		if s.begun > 0 {
			p.hashing(s.begun)
		}
		for range s.checks {
			p.check(s.used, func() int { return s.under })
		}
		if is := runtime.GOMAXPROCS(0); is != s.want {
			t.Errorf("step %d: %d processors, want %d", i, is, s.want)
		}
	}
}

// There are never more processors than Go would use by itself, except for those beside.
func TestSetProcessors(t *testing.T) {
	runtime.SetDefaultGOMAXPROCS()
	most := runtime.GOMAXPROCS(0)
	t.Cleanup(runtime.SetDefaultGOMAXPROCS)
	for _, c := range []struct{ want, beside, is int }{
		{1, 0, 1},
		{1, 0, 1},
		{2, 0, min(2, most)},
		{1 << 10, 0, most},
		{1 << 11, 0, most},
		{1, 0, 1},
		{1, 2, 3},
		{1 << 10, 2, most + 2},
		{1 << 10, 2, most + 2},
		{1 << 10, 1, most + 1},
		{1, 0, 1},
	} {
		setProcessors(c.want, c.beside)
		if is := runtime.GOMAXPROCS(0); is != c.is {
			t.Errorf("asked for %d and %d of %d processors: %d, want %d", c.want, c.beside, most, is, c.is)
		}
	}
}

// What the process uses is counted.
func TestProcessorTime(t *testing.T) {
	for before := vitals.ProcessorTime(); vitals.ProcessorTime() <= before; { // ends by itself: this takes time
	}
}
