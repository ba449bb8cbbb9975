package serve

import (
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/quorate/quorate/internal/phase"
)

const (
	// processorsEvery is the time between two looks at how much processor time the node takes.
	processorsEvery = 500 * time.Millisecond
	// moreAbove is the part of its processors above which a node gets more, and fewerBelow
	// the part of those that it would have left, below which it gives one up after
	// fewerAfter looks.
	moreAbove, fewerBelow = 0.7, 0.5
	fewerAfter            = 10
)

// processors says how many processors Go should use: as many as the node's work takes, and one
// at first. A goroutine that becomes ready wakes another processor up to look for it, which
// costs more than most steps of a broker's work do, and is in vain while one processor has
// time for all of them.
//
// Passwords that are hashed get some beside those: a hash holds one for tens of milliseconds, and Go lets nothing else run on
// it for 10 ms at a time, whereas the system gives a thread that has just become ready its turn at once. So there may be more
// than the machine has.
type processors struct {
	calm   int // looks in a row with processors to spare
	hashes int // that got a processor each
	fewer  int // looks in a row with fewer hashes than that
}

// beside returns how many there should be for hashes, of which so many are under way.
func (p *processors) beside(hashes int) int {
	if hashes >= p.hashes {
		p.hashes, p.fewer = hashes, 0
	} else if p.fewer++; p.fewer >= fewerAfter {
		p.hashes, p.fewer = p.hashes-1, 0
	}
	return p.hashes
}

// next returns how many there should be in place of now, of which the node used so many.
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

// watchProcessors sets GOMAXPROCS to what the node's work takes, and to what Go would set at
// most, beside what hashes of passwords get. If the environment sets it, that holds.
func (n *node) watchProcessors() {
	if os.Getenv("GOMAXPROCS") != "" {
		return
	}
	var p processors
	last, spent := time.Now(), processorTime()
	runtime.GOMAXPROCS(1)
	next := time.NewTimer(phase.Wait(last, processorsEvery))
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-n.unwatch:
			return
		}
		at, sum := time.Now(), processorTime()
		now := runtime.GOMAXPROCS(0) - p.hashes
		setProcessors(p.next(now, (sum-spent).Seconds()/at.Sub(last).Seconds()), p.beside(n.broker.Logins.Hashing()))
		last, spent = at, sum
		next.Reset(phase.Wait(at, processorsEvery))
	}
}

// setProcessors lets Go use so many processors, as far as the machine has them, and some beside. What there are at most is
// looked up anew, for the machine or the container may have got others.
func setProcessors(want, beside int) {
	if want+beside > runtime.GOMAXPROCS(0) {
		runtime.SetDefaultGOMAXPROCS()
		want = min(want, runtime.GOMAXPROCS(0))
	}
	if n := want + beside; n != runtime.GOMAXPROCS(0) {
		runtime.GOMAXPROCS(n)
	}
}

// processorTime is what the process has used since its start.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it fails for wrong arguments alone
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
