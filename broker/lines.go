package broker

import (
	"sync"
	"time"
)

// lines bounds how much the log tells of what clients cause: some lines at once, and then one more
// after a time. All methods may be called concurrently.
type lines struct {
	burst int
	every time.Duration

	mu      sync.Mutex
	left    float64
	at      time.Time // when left was counted; zero: never
	skipped uint64    // since the last line
}

// take tells whether there is a line, and how many there were none for since the last one.
func (l *lines) take(now time.Time) (skipped uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at.IsZero() {
		l.left = float64(l.burst)
	} else {
		l.left = min(float64(l.burst), l.left+float64(now.Sub(l.at))/float64(l.every))
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
