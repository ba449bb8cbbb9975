// Package lograte bounds the log lines that unauthenticated clients cause: a client that connects
// again and again must not fill a disk.
package lograte

import (
	"sync"
	"time"
)

// Lines bounds a log: Burst lines at once, then one for each Every. Take may be called
// concurrently; the fields must not change after the first call.
type Lines struct {
	Burst int
	Every time.Duration

	mu      sync.Mutex
	left    float64
	at      time.Time // when left was counted; zero: never
	skipped uint64    // since the last line
}

// Take reports whether the caller may write a line now, and how many lines were left out since the
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
