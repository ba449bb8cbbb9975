// Package latency counts how long things take, in buckets of a few per cent, at the price of one addition. What is counted
// since the beginning is compared with what was counted before, for what has been usual lately.
package latency

import (
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	// unitBits is the finest difference that is seen: 2^10 ns, about a microsecond.
	unitBits = 10
	// stepBits is how many buckets there are from a time to twice that, as a power of two: 8, so that a figure is at most
	// an eighth too high.
	stepBits = 3
	steps    = 1 << stepBits
	// buckets are enough for 2^37 ns, two minutes. The last one also has all that took longer.
	buckets = (37 - unitBits - stepBits + 1) * steps
)

// Histogram counts since its beginning. All methods may be called concurrently. The zero value has counted nothing.
type Histogram struct {
	counts [buckets]atomic.Uint64
}

// Counts are what a Histogram has counted, by how long it took.
type Counts [buckets]uint64

// Observe counts n things that took d each.
func (h *Histogram) Observe(d time.Duration, n uint64) { h.counts[bucketOf(d)].Add(n) }

// Counts returns what was counted since the beginning.
func (h *Histogram) Counts() (c Counts) {
	for i := range h.counts {
		c[i] = h.counts[i].Load()
	}
	return c
}

// bucketOf returns the number of the bucket of a time.
func bucketOf(d time.Duration) int {
	units := uint64(max(0, d)) >> unitBits
	if units < steps {
		return int(units)
	}
	doublings := bits.Len64(units) - 1 - stepBits
	return min((doublings+1)<<stepBits+int(units>>doublings)&(steps-1), buckets-1)
}

// endOf is the time at which a bucket ends.
func endOf(bucket int) time.Duration {
	if bucket < steps {
		return time.Duration(bucket+1) << unitBits
	}
	doublings := bucket>>stepBits - 1
	return time.Duration(steps+bucket&(steps-1)+1) << doublings << unitBits
}

// Since returns what was counted after before, which is older.
func (c *Counts) Since(before *Counts) (out Counts) {
	for i := range c {
		out[i] = c[i] - before[i]
	}
	return out
}

// Doublings returns how many took no longer than each of a row of times, in seconds, of which each is twice the one
// before; how many there are; and how long all took together, an eighth too much at most. It is a histogram as Prometheus
// has them.
func (c *Counts) Doublings() (upTo map[float64]uint64, all uint64, seconds float64) {
	upTo = make(map[float64]uint64, buckets/steps)
	for i, n := range c {
		all += n
		seconds += float64(n) * endOf(i).Seconds()
		if i%steps == steps-1 && i < buckets-1 { // the last one has no end
			upTo[endOf(i).Seconds()] = all
		}
	}
	return upTo, all, seconds
}

// All returns how many were counted.
func (c *Counts) All() (n uint64) {
	for _, x := range c {
		n += x
	}
	return n
}

// Quantile returns the time that a part of all did not exceed, such as 0.99; false if nothing was counted.
func (c *Counts) Quantile(part float64) (time.Duration, bool) {
	all := c.All()
	if all == 0 {
		return 0, false
	}
	left := float64(all) * part
	for i, n := range c {
		if left -= float64(n); left <= 0 {
			return endOf(i), true
		}
	}
	return endOf(buckets - 1), true
}
