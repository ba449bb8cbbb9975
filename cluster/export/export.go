// Package export paces the exports of a node: how fast its members of queues are read for backups. An export takes
// processor time, memory and the disk from clients of the node, so it reads faster only while they do not feel it. What
// they feel is how long syncs of the log and confirms take, compared with the best that was seen while exports ran, and
// how late the operating system and Go's scheduler wake a goroutine. Below a floor an export is never slowed.
//
// # Reading order
//
//   - What takes how long, and whether that is felt: signal.go.
//   - The pace that follows from it: export.go.
package export

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/latency"
	"github.com/quorate/quorate/internal/wait"
)

const (
	// DefaultFloor is Config.Floor unless it is set.
	DefaultFloor = 16 << 20
	// judgeEvery is the least time between two looks at what clients feel.
	judgeEvery = 50 * time.Millisecond
	// maxLate is how late a pause may end. Go rounds pauses up to milliseconds while nothing else runs.
	maxLate = 2 * time.Millisecond
	// minPause is the least pause between two blocks: while Go's scheduler always finds something to run, it looks for
	// new data from the network only every 10 ms.
	minPause = 50 * time.Microsecond
	// ahead is how much faster than its pace an export may be for a moment, because a pause was too long.
	ahead = 20 * time.Millisecond
	// remember is how long the pace and the best figures are kept when nothing is exported: a backup of many queues exports
	// one after another.
	remember = 10 * time.Second
	// faster, begin and slower change the pace: begin is in force until it was too fast for the first time.
	faster, begin, slower = 1.1, 1.5, 0.75
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

	mu      sync.Mutex // guards what follows
	running int
	ended   time.Time // of the last export
	rate    float64   // bytes per second, of all exports together
	free    time.Time // when the next block may be read
	steady  bool      // it was too fast once
	judged  time.Time
	since   int64 // bytes since then
	late    time.Duration
	pauses  int
	signals []*signal
	bytes   uint64
	slowed  map[Cause]uint64
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

// Begin counts an export until end is called. One that follows no other begins at the floor, and what is best is found
// anew.
func (p *Pacer) Begin() (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.running++; p.running == 1 && now.Sub(p.ended) > remember {
		p.rate, p.free, p.steady = p.floor, now, false
		for _, s := range p.signals {
			s.reset()
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
	p.free = p.free.Add(time.Duration(float64(bytes) / p.rate * float64(time.Second)))
	return max(minPause, at.Sub(now))
}

// paused counts how late a pause ended.
func (p *Pacer) paused(late time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late += late
	p.pauses++
}

// judge changes the pace by what clients have felt since the last time.
func (p *Pacer) judge(now time.Time) {
	elapsed := now.Sub(p.judged)
	if elapsed < judgeEvery {
		return
	}
	causes := make([]Cause, 0, len(p.signals)+1)
	for _, s := range p.signals {
		if s.slow() {
			causes = append(causes, s.cause)
		}
	}
	if p.pauses > 0 && p.late/time.Duration(p.pauses) > maxLate {
		causes = append(causes, CauseProcessor)
	}
	achieved := float64(p.since) / elapsed.Seconds()
	switch {
	case len(causes) > 0:
		for _, c := range causes {
			p.slowed[c]++
		}
		p.steady = true
		p.rate = max(p.floor, p.rate*slower)
	case achieved < p.rate/2: // something else slows it: the pace says nothing
	case p.steady:
		p.rate *= faster
	default:
		p.rate *= begin
	}
	p.look(now)
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
		s.Rate = p.rate
	}
	return s
}
