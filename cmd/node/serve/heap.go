package serve

import (
	"os"
	"runtime"
	"runtime/debug"

	"github.com/quorate/quorate/cluster/vitals"
)

const (
	// workingPercent is GOGC while the node works. A broker's heap is small compared with its traffic,
	// and half as many collections cost half the CPU. restingPercent is GOGC at rest: garbage comes
	// slowly, and a collection of the small heap costs next to nothing.
	workingPercent, restingPercent = 200, 50
	// restBelow is the utilisation of a processor below which a node is at rest after restAfter checks.
	// Above workAbove it works again.
	restBelow, workAbove = 0.05, 0.1
	restAfter            = 20
	// hashesOver is the number of checks without a hash after which what hashes needed is collected.
	hashesOver = 10
	// ageEvery is the number of checks between two in which caches give up what was not used since the one
	// before. Before a node is at rest there are two, after which caches have nothing left.
	ageEvery = restAfter / 2
	// collectUpTo is the size of a heap, in bytes, up to which the node that works starts collections. More
	// is left to the runtime: the larger a heap, the longer a collection takes, and the less it matters.
	collectUpTo = 256 << 20
	// returnUpTo is how much memory a node at rest returns to the operating system at once, in bytes: a process with one
	// processor does nothing else meanwhile, for 0.3 ms per MiB and more. Beyond that, the runtime returns memory bit
	// by bit, a GiB within half a minute.
	returnUpTo = 128 << 20
)

// heapStep is what the node does with its heap after a check.
type heapStep int

const (
	heapStays    heapStep = iota
	heapCollects          // garbage is collected
	heapRests             // the same, and free memory is returned to the operating system
	heapWorks             // memory is exchanged for processor time again
)

// heapWatch decides when the node collects garbage that the runtime would keep for long. The runtime sets the size at which it
// collects next to a multiple of what was in use at the last collection. A password hash needs 19 MiB for a moment, so the
// collections that see one let the heap of a small node grow to several times its size, and a node at rest would keep it.
type heapWatch struct {
	calm    int // consecutive checks below restBelow
	resting bool
	hashed  bool // since the last collection of the node's own
	without int  // consecutive checks without a hash
}

// check takes the utilisation since the last check, in processors, and whether a hash has begun since then. It must not be
// called for a time in which a step was taken: a collection is no work.
func (h *heapWatch) check(used float64, hashed bool) heapStep {
	h.without++
	if hashed {
		h.hashed, h.without = true, 0
	}
	h.calm++
	if used >= restBelow {
		h.calm = 0
	}
	switch {
	case h.resting && used > workAbove:
		h.resting = false
		return heapWorks
	case !h.resting && h.calm >= restAfter:
		h.resting, h.hashed = true, false
		return heapRests
	case h.hashed && h.without >= hashesOver:
		h.hashed = false
		return heapCollects
	}
	return heapStays
}

// beside takes steps beside the checks: the collection of a large heap takes seconds, in which a node may need more
// processors. One goroutine uses it.
type beside struct{ done chan struct{} }

// begin takes a step.
func (b *beside) begin(s heapStep) {
	if s == heapStays {
		return
	}
	done := make(chan struct{})
	b.done = done
	go func() {
		defer close(done)
		s.apply()
	}()
}

// over reports whether no step was taken since it was last called.
func (b *beside) over() bool {
	if b.done == nil {
		return true
	}
	select {
	case <-b.done:
		b.done = nil // the time since the last check was partly the step's
	default:
	}
	return false
}

// setHeap sets how much garbage the runtime lets gather, unless the environment sets it.
func setHeap(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// apply carries out a step. It returns when the collection is over.
func (s heapStep) apply() {
	switch s {
	case heapStays:
	case heapWorks:
		setHeap(workingPercent)
	case heapCollects:
		if vitals.Kept() <= collectUpTo {
			runtime.GC()
		}
	case heapRests:
		setHeap(restingPercent)
		// The first collection runs beside other work, as the runtime's own every two minutes. It shows what is in use, and
		// only the second one empties pools.
		runtime.GC()
		switch used := vitals.MemoryInUse(); {
		case used > collectUpTo:
		case int64(vitals.Kept())-used > returnUpTo:
			runtime.GC()
		default:
			debug.FreeOSMemory()
		}
	}
}
