package testcluster

import (
	"sync"
	"time"

	"github.com/quorate/quorate/clock"
)

// Clock is the clocks of a node's machine, which a test can set wrong. They run on while the node
// is down. All methods may be called concurrently; mu guards all fields.
type Clock struct {
	mu      sync.Mutex
	read    time.Time     // true time of the last read
	elapsed time.Duration // monotonic clock at the last read
	rate    float64       // speed of both clocks; 1 is right
	wall    time.Duration // by how much the wall clock is ahead of the monotonic one
}

func newClock() *Clock {
	now := time.Now()
	return &Clock{read: now, elapsed: time.Hour, rate: 1, wall: time.Duration(now.UnixNano()) - time.Hour}
}

// Read implements nodeclock.Source.
func (c *Clock) Read() clock.Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.elapsed += time.Duration(float64(now.Sub(c.read)) * c.rate)
	c.read = now
	return clock.Reading{Elapsed: c.elapsed, Wall: c.elapsed + c.wall}
}

// Elapsed implements nodeclock.Source.
func (c *Clock) Elapsed() time.Duration { return c.Read().Elapsed }

// Step sets the wall clock by so much.
func (c *Clock) Step(by time.Duration) {
	c.Read()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall += by
}

// Drift makes both clocks run at another rate from now on; 1 is right.
func (c *Clock) Drift(rate float64) {
	c.Read()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rate = rate
}
