package vitals

import (
	"time"

	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Wire returns figures as nodes send them to one another.
func (f *Figures) Wire() *nodev1.Vitals {
	return &nodev1.Vitals{
		Cpu: f.CPU, Processors: uint32(f.Processors), MemoryBytes: f.Memory, MemoryLimitBytes: f.MemoryLimit, MemoryHighBytes: f.MemoryHigh,
		Files: f.Files, FilesLimit: f.FilesLimit, Goroutines: f.Goroutines, Runnable: f.Runnable, UptimeMs: uint64(f.Uptime.Milliseconds()),
		ConfirmP99Us: microseconds(f.ConfirmP99), SyncP99Us: microseconds(f.SyncP99),
	}
}

// FromWire returns nil for a node that sends none: its build is older.
func FromWire(w *nodev1.Vitals) *Figures {
	if w == nil {
		return nil
	}
	return &Figures{
		CPU: w.Cpu, Processors: int(w.GetProcessors()), Memory: w.GetMemoryBytes(), MemoryLimit: w.GetMemoryLimitBytes(), MemoryHigh: w.GetMemoryHighBytes(),
		Files: w.GetFiles(), FilesLimit: w.GetFilesLimit(), Goroutines: w.GetGoroutines(), Runnable: w.GetRunnable(),
		Uptime:     time.Duration(w.GetUptimeMs()) * time.Millisecond,
		ConfirmP99: durationOf(w.ConfirmP99Us), SyncP99: durationOf(w.SyncP99Us),
	}
}

// microseconds keeps nil.
func microseconds(d *time.Duration) *uint64 {
	if d == nil {
		return nil
	}
	us := uint64(max(0, d.Microseconds()))
	return &us
}

// durationOf keeps nil.
func durationOf(us *uint64) *time.Duration {
	if us == nil {
		return nil
	}
	d := time.Duration(*us) * time.Microsecond
	return &d
}
