// Package logtail keeps the newest lines of a process's log in memory for operators who cannot read its output, and
// changes the log's level while the process runs.
package logtail

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// Lines is how many of the newest lines are kept.
	Lines = 2000
	// MaxTextBytes bounds the message and the attributes of a kept line, each; what is longer is cut.
	MaxTextBytes = 4 << 10
)

// Line is one line of a log.
type Line struct {
	// Number counts the lines since the process's start, from 1.
	Number  uint64
	At      time.Time
	Level   slog.Level
	Message string
	// Attributes are as a text handler writes them: key=value with spaces between.
	Attributes string
}

// Tail keeps the newest lines. All methods may be called concurrently.
type Tail struct {
	mu      sync.Mutex
	lines   [Lines]Line // line n is at (n-1) % Lines
	last    uint64      // number of the newest line; 0: none
	changed chan struct{}
}

// New returns a tail without lines.
func New() *Tail { return &Tail{changed: make(chan struct{})} }

// add keeps a line and wakes those who wait for it.
func (t *Tail) add(x Line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	x.Number = t.last
	t.lines[(x.Number-1)%Lines] = x
	close(t.changed)
	t.changed = make(chan struct{})
}

// After returns the kept lines after a number that have a level at least, oldest first, and the number after which to
// continue. It waits until there is a newer line of any level, or ctx ends. Lines that are no longer kept are left
// out: the numbers of those that come show how many.
func (t *Tail) After(ctx context.Context, number uint64, level slog.Level) (lines []Line, last uint64, err error) {
	for {
		t.mu.Lock()
		lines, last, changed := t.after(number, level), t.last, t.changed
		t.mu.Unlock()
		if last > number {
			return lines, last, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, number, ctx.Err()
		}
	}
}

// Newest returns at most n of the newest kept lines that have a level at least, oldest first, and the number to go on
// after.
func (t *Tail) Newest(n int, level slog.Level) (lines []Line, last uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines = t.after(0, level)
	return lines[max(0, len(lines)-n):], t.last
}

// after returns the kept lines after a number. The caller holds mu.
func (t *Tail) after(number uint64, level slog.Level) (out []Line) {
	if t.last > Lines {
		number = max(number, t.last-Lines)
	}
	for n := number + 1; n <= t.last; n++ {
		if x := t.lines[(n-1)%Lines]; x.Level >= level {
			out = append(out, x)
		}
	}
	return out
}
