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
		ConfirmP99Us: microseconds(f.ConfirmP99), SyncP99Us: microseconds(f.SyncP99), ProcessId: f.Process, Memory: f.Parts.wire(),
	}
}

// wire keeps nil.
func (m *Memory) wire() *nodev1.Memory {
	if m == nil {
		return nil
	}
	return &nodev1.Memory{
		ResidentBytes: m.Resident, HeapBytes: m.Heap, BodiesBytes: m.Bodies, TailBytes: m.Tail, StackBytes: m.Stacks,
		RuntimeBytes: m.Runtime, UnusedBytes: m.Unused,
	}
}

// memoryFromWire keeps nil.
func memoryFromWire(w *nodev1.Memory) *Memory {
	if w == nil {
		return nil
	}
	return &Memory{
		Resident: w.GetResidentBytes(), Heap: w.GetHeapBytes(), Bodies: w.GetBodiesBytes(), Tail: w.GetTailBytes(), Stacks: w.GetStackBytes(),
		Runtime: w.GetRuntimeBytes(), Unused: w.GetUnusedBytes(),
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
		ConfirmP99: durationOf(w.ConfirmP99Us), SyncP99: durationOf(w.SyncP99Us), Process: w.GetProcessId(), Parts: memoryFromWire(w.GetMemory()),
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
