package vitals

import (
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/latency"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Figures are of the last seconds in which somebody asked, and unknown where nothing can be compared.
func TestRecent(t *testing.T) {
	var r recent
	var confirms, syncs latency.Histogram
	begun, processor := time.Now(), time.Duration(0)
	look := func(after time.Duration) (cpu *float64, confirm, sync *time.Duration) {
		return r.compare(&mark{at: begun.Add(after), processor: processor, confirms: confirms.Counts(), syncs: syncs.Counts()})
	}
	confirms.Observe(time.Minute, 5)
	if cpu, confirm, sync := look(0); cpu != nil || confirm != nil || sync != nil {
		t.Error("the first look knows something")
	}
	processor += 500 * time.Millisecond
	confirms.Observe(time.Millisecond, 5)
	cpu, confirm, sync := look(time.Second)
	if cpu == nil || *cpu != 0.5 || confirm == nil || *confirm < time.Millisecond || *confirm > 2*time.Millisecond || sync != nil {
		t.Error(cpu, confirm, sync)
	}
	processor += 3 * time.Second
	if cpu, confirm, _ := look(2 * time.Second); *cpu != 3 || confirm == nil {
		t.Errorf("%v %v: the processors are those of the last second, the confirms those of more", *cpu, confirm)
	}
	if cpu, _, _ := look(2100 * time.Millisecond); *cpu > 3 || *cpu < 2.7 {
		t.Errorf("a look soon after has %v processors", *cpu)
	}
	for s := 3; s < 100; s++ {
		look(time.Duration(s) * time.Second)
	}
	if _, confirm, _ := look(100 * time.Second); confirm != nil || len(r.marks) > int(markFor/markEvery)+1 {
		t.Errorf("confirms of long ago: %v; %d marks", confirm, len(r.marks))
	}
	if cpu, _, _ := look(time.Hour); cpu != nil {
		t.Errorf("%v processors since nobody asked", *cpu)
	}
}

// A process knows what it uses, and other nodes get all of it; older ones send nothing.
func TestFigures(t *testing.T) {
	var confirms, syncs latency.Histogram
	v := New(Sources{
		MemoryPlan: func() (int64, int64) { return 2 << 30, 1 << 30 }, Caches: func() (int64, int64) { return 5, 6 },
		Confirms: &confirms, Syncs: &syncs,
	})
	f := v.Figures()
	if f.Memory == 0 || f.Goroutines == 0 || f.Processors == 0 || f.FilesLimit == 0 || f.MemoryLimit != 2<<30 || f.MemoryHigh != 1<<30 || f.CPU != nil {
		t.Errorf("%+v", f)
	}
	m := *f.Parts
	if int(f.Process) != os.Getpid() || m.Bodies != 5 || m.Tail != 6 || m.Resident == 0 || m.Heap < 1<<10 || m.Stacks == 0 || m.Runtime == 0 || m.Kept() <= m.Heap {
		t.Errorf("process %d, %+v", f.Process, m)
	}
	cpu, d := 1.5, 3*time.Millisecond
	f.CPU, f.ConfirmP99, f.SyncP99, f.Runnable, f.Files, f.Uptime = &cpu, &d, &d, 7, 8, time.Hour
	if got := FromWire(f.Wire()); !reflect.DeepEqual(*got, f) {
		t.Errorf("%+v, want %+v", *got, f)
	}
	unknown := FromWire(&nodev1.Vitals{})
	if unknown.CPU != nil || unknown.ConfirmP99 != nil || unknown.Parts != nil || FromWire(nil) != nil {
		t.Errorf("%+v", unknown)
	}
}
