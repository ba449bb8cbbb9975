package serve

import (
	"fmt"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/quorate/quorate/broker"
)

const (
	memoryEvery = time.Second
	// memoryPart of GOMEMLIMIT, in quarters, is the limit where none is set.
	memoryPart = 3
)

// memoryLimit is above how many bytes in use publishers are held back; 0: never.
func memoryLimit(configured int64) uint64 {
	if configured > 0 {
		return uint64(configured)
	}
	if most := debug.SetMemoryLimit(-1); most < math.MaxInt64 {
		return uint64(most) / 4 * memoryPart //nolint:gosec // positive
	}
	return 0
}

// memoryInUse returns the bytes that the process needs: what the last collection left of the
// heap, stacks, and what the runtime keeps for both. Garbage does not count.
func memoryInUse(samples []metrics.Sample) (n uint64) {
	metrics.Read(samples)
	for i := range samples {
		if samples[i].Value.Kind() == metrics.KindUint64 {
			n += samples[i].Value.Uint64()
		}
	}
	return n
}

// watchMemory holds publishers back while more memory is in use than the limit, and lets
// them go on a tenth below it.
func (n *node) watchMemory(limit uint64) {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"},
		{Name: "/memory/classes/metadata/other:bytes"},
		{Name: "/memory/classes/other:bytes"},
	}
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	for {
		heedMemory(n.broker, memoryInUse(samples), limit)
		select {
		case <-tick.C:
		case <-n.unwatch:
			return
		}
	}
}

func heedMemory(b *broker.Broker, used, limit uint64) {
	switch raised := b.Alarm() != nil; {
	case !raised && used > limit:
		b.RaiseAlarm(fmt.Sprintf("this node has %d bytes of memory in use, limits.memory_high is %d: consume, or give it more", used, limit))
	case raised && used < limit-limit/10:
		b.EndAlarm()
	}
}
