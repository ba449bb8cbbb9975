package wal

import "github.com/quorate/quorate/internal/latency"

// Stats are a log's statistics at one moment.
type Stats struct {
	Segments     int    // files with records
	Spares       int    // emptied files for reuse
	DiskBytes    int64  // of all files
	LiveBytes    int64  // of the records that are needed
	PendingBytes int64  // appended and not yet durable
	TailBytes    int64  // of recent entries in memory
	TailLimit    int64  // the limit of TailBytes
	FreeBytes    uint64 // of the file system, at the last check
	LowBytes     int64  // the limits of FreeBytes in force; none if not positive
	FloorBytes   int64
	ReserveBytes int64  // reserved for work that frees space
	Groups       int    // with records
	Syncs        uint64 // batches made durable since Open
	Appended     uint64 // bytes since Open
	Carried      uint64 // of those, entries appended again to free segments
	Lost         int    // groups that have lost records and must not take part any more
	Pressure     Pressure
	Short        bool   // the log waits for a file descriptor
	Shortages    uint64 // how often it had to wait for one, since Open
}

// SyncTimes counts how long it has taken to make batches durable.
func (l *Log) SyncTimes() *latency.Histogram { return &l.syncTimes }

// Stats returns the log's figures.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Stats{
		Segments: len(l.segs), Spares: l.toReuse(), PendingBytes: l.pending, TailBytes: l.tail.bytes, TailLimit: l.tail.limit,
		Short: l.short > 0, Shortages: l.shortages,
		FreeBytes: l.room.Free, LowBytes: l.room.Low, FloorBytes: l.room.Floor, ReserveBytes: l.room.Reserve, Syncs: l.syncs, Appended: uint64(l.appended), Carried: l.carried, Pressure: l.room.Pressure,
	}
	for _, g := range l.groups {
		if g.exists() {
			s.Groups++
		}
		if g.lost != nil {
			s.Lost++
		}
	}
	for _, seg := range l.segs {
		s.DiskBytes += seg.bytes()
		s.LiveBytes += seg.live
	}
	if l.ahead != nil && l.ahead.file != nil {
		s.DiskBytes += l.ahead.bytes()
	}
	for _, sp := range l.spares {
		s.DiskBytes += sp.size
	}
	return s
}
