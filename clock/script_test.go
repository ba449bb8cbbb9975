package clock

import (
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestScripts runs testdata/*.txt: what happens to machines' clocks, and what time it then
// is in the cluster and in a queue, less the true time.
func TestScripts(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		var w *world
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			w = run(t, w, d)
			return w.show()
		})
	})
}

func run(t *testing.T, w *world, d *datadriven.TestData) *world {
	t.Helper()
	var machines []*machine
	duration := func(key string) time.Duration {
		var text string
		d.ScanArgs(t, key, &text)
		v, err := time.ParseDuration(text)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		return v
	}
	if d.Cmd == "machines" {
		var n int
		d.ScanArgs(t, "n", &n)
		return newWorld(n, DefaultLimit)
	}
	for _, a := range d.CmdArgs {
		if len(a.Vals) == 0 {
			machines = append(machines, w.machine(a.Key))
		}
	}
	if d.Cmd == "run" {
		w.run(duration("for"), nil)
		return w
	}
	if d.Cmd == "pass" { // time in which nothing runs, or nothing can
		w.now += duration("for")
		return w
	}
	if len(machines) == 0 {
		d.Fatalf(t, "%s: name machines", d.Cmd)
	}
	for _, m := range machines {
		m.read()
		switch d.Cmd {
		case "start":
			m.start()
		case "stop":
			m.steering = nil
			if w.leader == m {
				w.leader = nil
			}
		case "set":
			m.wall += duration("by")
		case "drift":
			var percent float64
			d.ScanArgs(t, "percent", &percent)
			m.rate = 1 + percent/100
		case "halt": // as a machine that is paused: its wall clock is right again afterwards
			m.halted = true
		case "resume":
			m.halted = false
			m.wall = w.now - m.elapsed
		case "old":
			m.old = true
		case "lead":
			w.lead(m)
		case "cut":
			for _, o := range w.machines {
				w.cut[[2]int{m.place, o.place}] = true
			}
		case "heal":
			for _, o := range w.machines {
				delete(w.cut, [2]int{m.place, o.place})
			}
		default:
			d.Fatalf(t, "unknown command")
		}
	}
	return w
}
