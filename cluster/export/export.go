// Package export paces the exports of a node: how fast its members of queues are read for backups. An export takes
// processor time, memory and the disk from clients of the node, so it reads faster only while they do not notice.
// What they notice is how long syncs of the log and confirms take, compared with what they take while exports read at
// a floor, and how late the operating system and Go's scheduler wake a goroutine. Below the floor an export is never
// slowed. Now and then exports read at the floor for a moment, for the comparison.
//
// The worst of a hundred confirms shows even a short time of reading too fast. So a pace is approached in small steps,
// each of which is judged by enough confirms that chance says little, and left in proportion to what is felt.
//
// # Reading order
//
//   - How long operations take, and whether clients notice: signal.go.
//   - The pace that follows from it: export.go.
package export

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/latency"
	"github.com/quorate/quorate/internal/wait"
)

const (
	// DefaultFloor is Config.Floor unless it is set.
	DefaultFloor = 16 << 20
	// judgeEvery is the least interval between measurements of what clients notice.
	judgeEvery = 150 * time.Millisecond
	// compareEvery is how long what was usual at the floor is compared with, and maxCompare limits the time at the floor for
	// the next comparison, if clients send little.
	compareEvery, maxCompare = 10 * time.Second, time.Second
	// maxLate is how late a pause may end. Go rounds pauses up to milliseconds while nothing else runs.
	maxLate = 2 * time.Millisecond
	// minPause is the least pause between two blocks: while Go's scheduler always finds something to run, it looks for
	// new data from the network only every 10 ms.
	minPause = 50 * time.Microsecond
	// ahead is how much faster than its pace an export may be for a moment, because a pause was too long.
	ahead = 5 * time.Millisecond
	// remember is how long the pace and the usual figures are kept when nothing is exported: a backup of many queues
	// exports one after another.
	remember = 10 * time.Second
	// begin is the growth of the pace at each look, at most, until it was felt for the first time. Later it is faster, and
	// fastest when nothing was felt for more than settled looks.
	begin, faster, fastest, settled = 1.4, 1.1, 1.25, 3
	// slowest bounds by how much the pace falls at one check.
	slowest = 0.5
)

// Config describes a Pacer.
type Config struct {
	// Floor is the pace below which exports are not slowed, in bytes per second for all of the node together; 0:
	// DefaultFloor.
	Floor int64
	// Confirms and Syncs return what the node counts; either may be nil: it is not looked at.
	Confirms, Syncs func() *latency.Histogram
}

// Pacer says when the exports of a node may go on. All methods may be called concurrently.
type Pacer struct {
	floor float64

	mu       sync.Mutex // guards what follows
	running  int
	ended    time.Time // of the last export
	rate     float64   // bytes per second, of all exports together, while they do not read at the floor to compare
	free     time.Time // when the next block may be read
	steady   bool      // it was felt once
	unfelt   int       // looks since it was felt
	compares bool      // exports read at the floor to compare
	settles  bool      // since the last look
	compared time.Time // when that ended, or began
	judged   time.Time
	since    int64 // bytes since then
	late     time.Duration
	pauses   int
	signals  []*signal
	bytes    uint64
	slowed   map[Cause]uint64
}

// New returns a Pacer.
func New(c Config) *Pacer {
	if c.Floor == 0 {
		c.Floor = DefaultFloor
	}
	p := &Pacer{floor: float64(c.Floor), slowed: make(map[Cause]uint64)}
	for _, s := range []*signal{{cause: CauseConfirms, from: c.Confirms}, {cause: CauseSyncs, from: c.Syncs}} {
		if s.from != nil {
			p.signals = append(p.signals, s)
		}
	}
	return p
}

// Begin counts an export until end is called. One that follows no other begins at the floor, and what is usual there is
// found anew.
func (p *Pacer) Begin() (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.running++; p.running == 1 && now.Sub(p.ended) > remember {
		p.rate, p.free, p.steady, p.unfelt = p.floor, now, false, 0
		p.compares, p.settles, p.compared = true, false, now
		for _, s := range p.signals {
			s.restart()
			s.usual = 0
		}
		p.look(now)
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.running--
		p.ended = time.Now()
	}
}

// Wait waits until an export may pass on so many bytes.
func (p *Pacer) Wait(ctx context.Context, bytes int) error {
	pause := p.take(time.Now(), bytes)
	began := time.Now()
	if err := wait.For(ctx, pause); err != nil {
		return err
	}
	p.paused(time.Since(began) - pause)
	return nil
}

// take reserves the time for bytes, and returns for how long to wait.
func (p *Pacer) take(now time.Time, bytes int) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.judge(now)
	p.bytes += uint64(bytes)
	p.since += int64(bytes)
	if first := now.Add(-ahead); p.free.Before(first) {
		p.free = first
	}
	at := p.free
	p.free = p.free.Add(time.Duration(float64(bytes) / p.pace() * float64(time.Second)))
	return max(minPause, at.Sub(now))
}

// paused counts how late a pause ended.
func (p *Pacer) paused(late time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late += late
	p.pauses++
}

// pace is how fast exports may read now, in bytes per second.
func (p *Pacer) pace() float64 {
	if p.compares {
		return p.floor
	}
	return p.rate
}

// judge changes the pace by what clients have felt since the last time.
func (p *Pacer) judge(now time.Time) {
	elapsed := now.Sub(p.judged)
	if elapsed < judgeEvery {
		return
	}
	achieved := float64(p.since) / elapsed.Seconds()
	excess := 0.0
	feel := func(c Cause, x float64) {
		excess = max(excess, x)
		if x > 1 {
			p.slowed[c]++
		}
	}
	if p.pauses > 0 {
		feel(CauseProcessor, float64(p.late/time.Duration(p.pauses))/float64(maxLate))
	}
	if !p.compares {
		for _, s := range p.signals {
			feel(s.cause, s.excess())
		}
	}
	switch {
	case excess > 1: // the root, as a part of it may be chance
		p.steady, p.unfelt = true, 0
		p.rate = max(p.floor, p.rate*max(slowest, 1/math.Sqrt(excess)))
	case p.compares || achieved < p.rate/2: // the pace says nothing
	default:
		p.unfelt++
		p.rate *= min(p.growth(), 1/excess)
	}
	p.compare(now)
	p.look(now)
}

// growth is by how much the pace grows at most when nothing was felt.
func (p *Pacer) growth() float64 {
	switch {
	case !p.steady:
		return begin
	case p.unfelt > settled:
		return fastest
	}
	return faster
}

// compare decides whether exports read at the floor until the next look. The first look at the floor has what follows
// from the pace before, and is left out.
func (p *Pacer) compare(now time.Time) {
	since := now.Sub(p.compared)
	switch {
	case p.settles:
		p.settles = false
		for _, s := range p.signals {
			s.restart()
		}
	case p.compares:
		done := true
		for _, s := range p.signals {
			done = s.compare(since >= maxCompare) && done
		}
		if done {
			p.compares, p.compared = false, now
		}
	case since >= compareEvery:
		p.compares, p.settles, p.compared = true, true, now
	}
}

// look begins what the next judgement looks at.
func (p *Pacer) look(now time.Time) { p.judged, p.since, p.late, p.pauses = now, 0, 0, 0 }

// Stats are the figures of a node's exports.
type Stats struct {
	Running int
	Bytes   uint64           // passed on since the start
	Rate    float64          // bytes per second that exports may read now; 0: none runs
	Slowed  map[Cause]uint64 // how often they were slowed since the start, by cause
}

// Stats returns the figures.
func (p *Pacer) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Stats{Running: p.running, Bytes: p.bytes, Slowed: make(map[Cause]uint64)}
	for _, c := range Causes() {
		s.Slowed[c] = p.slowed[c]
	}
	if p.running > 0 {
		s.Rate = p.pace()
	}
	return s
}
