package liveness

import (
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/id"
)

// processTime returns the CPU time that this process has used.
func processTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkIdle measures groups of three at rest, all members in this process, with
// stores in memory: CPU as a share of one core, and memory per group of three.
func BenchmarkIdle(b *testing.B) {
	for _, groups := range []int{0, 1000} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			ns := startNodes(b, false)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			ns.open(groups)
			ns.led(groups, ns.all...)
			time.Sleep(3 * time.Second) // what the elections left to do is no rest
			runtime.GC()
			runtime.ReadMemStats(&after)
			goroutines := runtime.NumGoroutine()
			const rest = 10 * time.Second
			cpu := processTime(b)
			for range b.N {
				time.Sleep(rest)
			}
			cpu = processTime(b) - cpu
			b.ReportMetric(100*cpu.Seconds()/(rest.Seconds()*float64(b.N)), "%core")
			if groups > 0 {
				bytes := after.HeapInuse + after.StackInuse - before.HeapInuse - before.StackInuse
				b.ReportMetric(float64(bytes)/float64(groups)/1024, "KB/group")
				b.ReportMetric(float64(goroutines)/float64(groups), "goroutines/group")
			}
		})
	}
}

// BenchmarkKill measures the time from the end of a node until the groups that it led
// have a leader that has committed in its term.
func BenchmarkKill(b *testing.B) {
	for _, groups := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			var p50, worst []time.Duration
			for range b.N {
				ns := startNodes(b, false)
				ns.open(groups)
				ns.led(groups, ns.all...)
				dead := leader(firstGroup, ns.all...)
				var open []id.GroupID
				for g := range groups {
					if g := firstGroup + id.GroupID(g); leader(g, ns.all...) == dead {
						open = append(open, g)
					}
				}
				times := timesToLeader(b, ns, dead, open)
				p50, worst = append(p50, times[len(times)/2]), append(worst, times[len(times)-1])
				for _, n := range ns.all {
					n.kill()
				}
			}
			slices.Sort(p50)
			slices.Sort(worst)
			b.ReportMetric(float64(p50[len(p50)/2].Microseconds())/1e3, "ms-p50")
			b.ReportMetric(float64(worst[len(worst)-1].Microseconds())/1e3, "ms-worst")
		})
	}
}

func timesToLeader(b *testing.B, ns *nodes, dead *node, open []id.GroupID) []time.Duration {
	b.Helper()
	rest := ns.others(dead)
	begin := time.Now()
	go dead.kill()
	var times []time.Duration
	for len(open) > 0 {
		if time.Since(begin) > time.Minute {
			b.Fatalf("%d groups have no leader after a minute", len(open))
		}
		open = slices.DeleteFunc(open, func(g id.GroupID) bool {
			if leader(g, rest...) == nil {
				return false
			}
			times = append(times, time.Since(begin))
			return true
		})
		time.Sleep(time.Millisecond)
	}
	return times
}
