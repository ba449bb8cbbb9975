// Package lograte bounds lines of a log that unauthenticated clients cause: who knocks at a port without end
// must not fill a disk.
package lograte

import (
	"sync"
	"time"
)

// Lines is how many lines may be written: Burst at once, then one each Every. Take may be called
// concurrently; the fields must not change by then.
type Lines struct {
	Burst int
	Every time.Duration

	mu      sync.Mutex
	left    float64
	at      time.Time // when left was counted; zero: never
	skipped uint64    // since the last line
}

// Take reports whether there is a line at this moment, and how many there were none for since the
// last one.
func (l *Lines) Take(now time.Time) (skipped uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	burst := float64(l.Burst)
	if l.at.IsZero() {
		l.left = burst
	} else {
		l.left = min(burst, l.left+float64(now.Sub(l.at))/float64(l.Every))
	}
	l.at = now
	if l.left < 1 {
		l.skipped++
		return 0, false
	}
	l.left--
	skipped, l.skipped = l.skipped, 0
	return skipped, true
}
