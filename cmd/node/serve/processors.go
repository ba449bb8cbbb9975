package serve

import (
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/quorate/quorate/cluster/vitals"
	"github.com/quorate/quorate/internal/phase"
)

const (
	// fewProcessors is up to how many processors follow the work. Where there are more, they are
	// left to Go: a burst would wait for its processors until the next check.
	fewProcessors = 2
	// processorsEvery is the interval of checks of how much processor time the node uses.
	processorsEvery = 500 * time.Millisecond
	// moreAbove is the utilisation above which the node gets another processor. fewerBelow is the
	// utilisation of the remaining processors below which it gives one up after fewerAfter checks.
	moreAbove, fewerBelow = 0.7, 0.5
	fewerAfter            = 10
)

// processors decides how many of a few processors Go should use: as many as the node's work needs, beginning
// with one. A goroutine that becomes ready wakes another processor to run it. That costs more than
// most steps of a broker's work, and gains nothing while one processor has time for all of them.
//
// Password hashing gets processors beyond those. A hash occupies one for tens of milliseconds, and
// Go preempts it only every 10 ms, whereas the operating system lets a thread that has just become
// ready run at once. So there may be more processors than the machine has.
//
// mu guards the fields, and GOMAXPROCS while watched.
type processors struct {
	mu      sync.Mutex
	watched bool
	calm    int // consecutive checks with processors to spare
	hashes  int // hashes that got a processor each
}

// hashing gives the hashes that are under way, and the one about to begin, a processor each. Waiting
// for the next check would let the first hashes keep everything else waiting.
func (p *processors) hashing(hashes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if more := hashes - p.hashes; p.watched && more > 0 {
		p.hashes = hashes
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + more)
	}
}

// watch begins with one processor.
func (p *processors) watch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watched = true
	runtime.GOMAXPROCS(1 + p.hashes)
}

// check sets GOMAXPROCS by how many processors were used since the last check, and how many hashes
// are under way. Those that have ended give theirs up at once: clients publish when they have logged in.
// For the same reason what a hash may have used does not count as the node's work.
func (p *processors) check(used float64, hashing func() int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	had := p.hashes
	now := runtime.GOMAXPROCS(0) - had
	p.hashes = hashing() // with mu: a hash that begins now must not lose its processor
	setProcessors(p.next(now, used-float64(max(had, p.hashes))), p.hashes)
}

// next returns the number of processors to use instead of now, of which the node used the given
// part.
func (p *processors) next(now int, used float64) int {
	switch {
	case used > moreAbove*float64(now):
		p.calm = 0
		return 2 * now
	case now > 1 && used < fewerBelow*float64(now-1):
		if p.calm++; p.calm < fewerAfter {
			return now
		}
		p.calm = 0
		return now - 1
	}
	p.calm = 0
	return now
}

// hashing is called before each password hash, with how many there are then.
func (n *node) hashing(hashes int) {
	n.hashed.Store(true)
	n.processors.hashing(hashes)
}

// follows reports whether a node follows its work with its processors, given the environment's GOMAXPROCS and how many
// processors Go uses by default.
func follows(environment string, processors int) bool {
	return environment == "" && processors <= fewProcessors
}

// watchUse follows how much processor time the node uses. It sets GOMAXPROCS to what the node's work needs, up to Go's own
// default, plus the processors for password hashes, unless there are more than fewProcessors of them or the environment sets
// GOMAXPROCS; it lets caches age; and it collects garbage when the heap asks for it.
func (n *node) watchUse() {
	follow := follows(os.Getenv("GOMAXPROCS"), runtime.GOMAXPROCS(0))
	last, spent := time.Now(), vitals.ProcessorTime()
	if follow {
		n.processors.watch()
	}
	h := heapWatch{hashed: true} // the start may have hashed the default user's password, and leaves garbage in any case
	var taken beside
	next := time.NewTimer(phase.Wait(last, processorsEvery))
	defer next.Stop()
	for checks := 1; ; checks++ {
		select {
		case <-next.C:
		case <-n.unwatch:
			return
		}
		at, sum := time.Now(), vitals.ProcessorTime()
		used := (sum - spent).Seconds() / at.Sub(last).Seconds()
		if follow {
			n.processors.check(used, n.broker.Logins.Hashing)
		}
		if checks%ageEvery == 0 {
			n.part.AgeCaches() // before the heap is collected
		}
		last, spent = at, sum
		if taken.over() {
			taken.begin(h.check(used, n.hashed.Swap(false)))
		}
		next.Reset(phase.Wait(at, processorsEvery))
	}
}

// setProcessors lets Go use this many processors, as far as the machine has them, plus those for
// hashes. It reads the machine's number each time, because it may change in a virtual machine or
// container.
func setProcessors(want, beside int) {
	if want+beside > runtime.GOMAXPROCS(0) {
		runtime.SetDefaultGOMAXPROCS()
		want = min(want, runtime.GOMAXPROCS(0))
	}
	if n := want + beside; n != runtime.GOMAXPROCS(0) {
		runtime.GOMAXPROCS(n)
	}
}
