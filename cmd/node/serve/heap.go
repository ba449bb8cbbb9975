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
	// settling is the number of checks after that in which utilisation does not count: the collection
	// is part of it.
	settling = 4
	// hashesOver is the number of checks without a hash after which what hashes needed is collected.
	hashesOver = 10
	// ageEvery is the number of checks between two in which caches give up what was not used since the one
	// before. Before a node is at rest there are two, after which caches have nothing left.
	ageEvery = restAfter / 2
	// collectUpTo is the size of a heap, in bytes, up to which the node that works starts collections. More
	// is left to the runtime: the larger a heap, the longer a collection takes, and the less it matters.
	collectUpTo = 256 << 20
	// returnUpTo is how much memory a node at rest returns to the operating system at once, in bytes: a process with one
	// processor does nothing else meanwhile, for 0.3 ms per MiB and more. The runtime returns more than that bit by bit,
	// a GiB within half a minute.
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
	calm     int // consecutive checks below restBelow
	resting  bool
	settling int  // checks in which utilisation does not count
	hashed   bool // since the last collection of the node's own
	without  int  // consecutive checks without a hash
}

// check takes the utilisation since the last check, in processors, and whether a hash has begun since then.
func (h *heapWatch) check(used float64, hashed bool) heapStep {
	h.without++
	if hashed {
		h.hashed, h.without = true, 0
	}
	if h.settling > 0 {
		h.settling--
		return heapStays
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
		h.resting, h.settling, h.hashed = true, settling, false
		return heapRests
	case h.hashed && h.without >= hashesOver:
		h.hashed = false
		return heapCollects
	}
	return heapStays
}

// setHeap sets how much garbage the runtime lets gather, unless the environment sets it.
func setHeap(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// take carries out a step. It returns when the collection is over.
func (s heapStep) take() {
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
