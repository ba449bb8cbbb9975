package raftfsm

import (
	"sync/atomic"
	"time"
)

// stopwatch reports when something that the disk does takes longer than a limit. start and
// stop exclude each other.
type stopwatch struct {
	base  time.Time
	limit time.Duration // 0 and below: nothing takes too long
	hangs func()        // called when the limit is passed, and when that is over
	since atomic.Int64  // start, nanoseconds since base; 0: nothing is under way
	alarm *time.Timer   // runs meanwhile; nil without a limit
}

// newStopwatch makes the alarm first, so that start only has to set it.
func newStopwatch(limit time.Duration, hangs func()) *stopwatch {
	w := &stopwatch{base: time.Now(), limit: limit, hangs: hangs}
	if limit > 0 {
		w.alarm = time.AfterFunc(limit, hangs)
		w.alarm.Stop()
	}
	return w
}

// start measures from now on, also if it does so already.
func (w *stopwatch) start() {
	was := w.since.Swap(max(1, int64(time.Since(w.base))))
	if w.alarm != nil && !w.alarm.Reset(w.limit) && was != 0 {
		w.hangs()
	}
}

// stop ends it.
func (w *stopwatch) stop() {
	if w.since.Swap(0) != 0 && w.alarm != nil && !w.alarm.Stop() {
		w.hangs()
	}
}

// over reports whether the limit has been passed.
func (w *stopwatch) over() bool {
	since := w.since.Load()
	return w.limit > 0 && since != 0 && time.Since(w.base)-time.Duration(since) >= w.limit
}

// age returns for how long it has measured, 0 if nothing is under way.
func (w *stopwatch) age() time.Duration {
	since := w.since.Load()
	if since == 0 {
		return 0
	}
	return time.Since(w.base) - time.Duration(since)
}
