package vitals

import (
	"os"
	"runtime/metrics"
	"syscall"
	"time"
)

// inUse are the figures of the runtime that MemoryInUse adds up.
func inUse() []string {
	return []string{
		"/gc/heap/live:bytes", "/memory/classes/heap/stacks:bytes",
		"/memory/classes/metadata/other:bytes", "/memory/classes/other:bytes",
	}
}

// MemoryInUse returns the bytes that the process needs: what the last collection left of the heap, stacks, and the
// runtime's overhead. Garbage does not count.
func MemoryInUse() int64 { return int64(sumOf(inUse()...)) }

// runnable counts the goroutines that wait for a processor.
func runnable() uint64 { return sumOf("/sched/goroutines/runnable:goroutines") }

// sumOf adds up figures of the runtime. One that it does not have counts as 0.
func sumOf(names ...string) (n uint64) {
	samples := make([]metrics.Sample, len(names))
	for i, name := range names {
		samples[i].Name = name
	}
	metrics.Read(samples)
	for i := range samples {
		if samples[i].Value.Kind() == metrics.KindUint64 {
			n += samples[i].Value.Uint64()
		}
	}
	return n
}

// ProcessorTime is the CPU time of the process since its start.
func ProcessorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it fails only for invalid arguments
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// filesDir has an entry for each open descriptor, on Linux.
const filesDir = "/proc/self/fd"

// files returns how many descriptors are open, and how many may be; 0: that is not known.
func files() (open, limit uint64) {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) == nil {
		limit = uint64(r.Cur) //nolint:unconvert // it is signed on some systems
	}
	// Since Linux 6.2 the size of the directory is the number; reading it costs an entry for each.
	if s, err := os.Stat(filesDir); err == nil && s.Size() > 0 {
		return uint64(s.Size()), limit
	}
	all, err := os.ReadDir(filesDir)
	if err != nil {
		return 0, limit
	}
	return uint64(len(all)), limit
}
