package vitals

import (
	"time"

	"github.com/quorate/quorate/internal/latency"
)

const (
	// markEvery is the least interval between marks, and so the time over which the use of processors is measured.
	markEvery = time.Second
	// markFor is how old a mark may be to be compared with: an older one is irrelevant to the present.
	markFor = 10 * time.Second
	// p99 is the share of all times that are at most the p99.
	p99 = 0.99
)

// mark is what had been counted at a time.
type mark struct {
	at              time.Time
	processor       time.Duration
	confirms, syncs latency.Counts
}

// recent are the marks of the last seconds in which somebody asked, oldest first. Whoever owns it guards it.
type recent struct{ marks []*mark }

// compare compares what is counted now with what was before, and remembers it.
func (r *recent) compare(now *mark) (cpu *float64, confirm, sync *time.Duration) {
	for len(r.marks) > 0 && now.at.Sub(r.marks[0].at) > markFor {
		r.marks = r.marks[1:]
	}
	if len(r.marks) == 0 {
		r.marks = []*mark{now}
		return nil, nil, nil
	}
	oldest, second := r.marks[0], r.marks[0]
	for _, m := range r.marks { // the newest that is old enough
		if now.at.Sub(m.at) >= markEvery {
			second = m
		}
	}
	if elapsed := now.at.Sub(second.at); elapsed >= markEvery/2 { // a shorter time says little
		cores := (now.processor - second.processor).Seconds() / elapsed.Seconds()
		cpu = &cores
	}
	confirm, sync = lately(&now.confirms, &oldest.confirms), lately(&now.syncs, &oldest.syncs)
	if now.at.Sub(r.marks[len(r.marks)-1].at) >= markEvery {
		r.marks = append(r.marks, now)
	}
	return cpu, confirm, sync
}

// lately returns the p99 of what was counted since before; nil: nothing was.
func lately(now, before *latency.Counts) *time.Duration {
	since := now.Since(before)
	d, known := since.Quantile(p99)
	if !known {
		return nil
	}
	return &d
}
