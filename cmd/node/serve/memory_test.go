package serve

import (
	"runtime/metrics"
	"testing"

	"github.com/quorate/quorate/broker"
)

// Publishers wait from the limit on until a tenth below it.
func TestHeedMemory(t *testing.T) {
	b := broker.New(broker.Config{})
	defer b.Close()
	for _, x := range []struct {
		used   uint64
		raised bool
	}{{1000, false}, {1001, true}, {950, true}, {900, true}, {899, false}, {950, false}, {2000, true}, {0, false}} {
		if heedMemory(b, x.used, 1000); (b.Alarm() != nil) != x.raised {
			t.Errorf("%d in use: alarm %v, want %t", x.used, b.Alarm(), x.raised)
		}
	}
	if n := b.Counters().Alarms; n != 2 {
		t.Errorf("%d alarms, want 2", n)
	}
}

// The figures that the limit is compared with exist in this runtime.
func TestMemoryInUse(t *testing.T) {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	kept := make([]byte, 1<<20)
	if n := memoryInUse(samples); samples[0].Value.Kind() != metrics.KindUint64 {
		t.Errorf("%d bytes of %v, beside %d", n, samples[0], len(kept))
	}
	if n := memoryLimit(5); n != 5 {
		t.Errorf("limit %d, want 5", n)
	}
}
