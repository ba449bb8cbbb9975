// Package vitals measures what a node's process uses, and how long its confirms and the syncs of its log take. Confirms
// and syncs are counted all the time; everything else is measured when somebody asks.
//
// # Reading order
//
//   - What a process knows about itself: process.go, memory.go.
//   - The comparison with what was before: recent.go.
//   - All figures together: vitals.go.
//   - What nodes send each other: wire.go.
package vitals

import (
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/latency"
)

// Figures are what a node knows about itself. A value that is derived from earlier figures is nil without them, or if
// nothing has happened since.
type Figures struct {
	CPU         *float64 // cores in use, in the last seconds
	Processors  int      // of the machine
	Memory      uint64   // bytes in use, without garbage
	MemoryLimit uint64   // of the Go runtime; 0: none
	MemoryHigh  uint64   // publishers are held back above it; 0: never
	Files       uint64   // open descriptors; 0: not known
	FilesLimit  uint64
	Goroutines  uint64
	Runnable    uint64 // goroutines that wait for a processor
	Uptime      time.Duration
	ConfirmP99  *time.Duration // of the messages that clients of this node publish, in the last seconds
	SyncP99     *time.Duration // of the log, in the last seconds
	Process     uint32         // as the operating system numbers it; 0: the build of the node is older
	Parts       *Memory        // what the memory is for, garbage too; nil: the build of the node is older
}

// Sources are where figures come from.
type Sources struct {
	// MemoryPlan returns the bytes above which the runtime frees eagerly, and above which publishers are held back; 0:
	// there is no such limit. nil: there is no plan.
	MemoryPlan func() (limit, high int64)
	// Caches returns how many bytes of bodies of messages and of the log's newest entries are in memory. nil: none.
	Caches   func() (bodies, tail int64)
	Confirms *latency.Histogram // required
	Syncs    *latency.Histogram // required
}

// Vitals measures. All methods may be called concurrently.
type Vitals struct {
	from  Sources
	began time.Time

	mu     sync.Mutex
	recent recent
}

// New returns a Vitals of a node that starts now.
func New(from Sources) *Vitals { return &Vitals{from: from, began: time.Now()} }

// Figures measures.
func (v *Vitals) Figures() Figures {
	now := time.Now()
	f := Figures{
		Memory: uint64(MemoryInUse()), Processors: runtime.NumCPU(), Uptime: now.Sub(v.began), Goroutines: uint64(runtime.NumGoroutine()),
		Runnable: runnable(), Process: uint32(os.Getpid()), Parts: memoryParts(),
	}
	if v.from.Caches != nil {
		bodies, tail := v.from.Caches()
		f.Parts.Bodies, f.Parts.Tail = uint64(max(0, bodies)), uint64(max(0, tail))
	}
	f.Files, f.FilesLimit = files()
	if v.from.MemoryPlan != nil {
		limit, high := v.from.MemoryPlan()
		f.MemoryLimit, f.MemoryHigh = uint64(max(0, limit)), uint64(max(0, high))
	}
	v.mu.Lock() // before it counts: marks are in order
	defer v.mu.Unlock()
	at := mark{at: time.Now(), processor: ProcessorTime(), confirms: v.from.Confirms.Counts(), syncs: v.from.Syncs.Counts()}
	f.CPU, f.ConfirmP99, f.SyncP99 = v.recent.compare(&at)
	return f
}
