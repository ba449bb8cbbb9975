package liveness

import (
	"context"
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
// stores in memory: CPU as a share of one core, and memory and goroutines per member.
func BenchmarkIdle(b *testing.B) {
	for _, groups := range []int{0, 1000, 10000} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			ns := startNodes(b, false)
			var before, after runtime.MemStats
			settle()
			runtime.ReadMemStats(&before)
			ns.open(groups)
			ns.led(groups, ns.all...)
			time.Sleep(12 * time.Second) // what the elections left to do is no rest
			const rest = 20 * time.Second
			cpu := processTime(b)
			for range b.N {
				time.Sleep(rest)
			}
			cpu = processTime(b) - cpu
			goroutines := runtime.NumGoroutine()
			settle()
			runtime.ReadMemStats(&after)
			b.ReportMetric(100*cpu.Seconds()/(rest.Seconds()*float64(b.N)), "cpu_percent")
			if groups > 0 {
				bytes := after.HeapInuse + after.StackInuse - before.HeapInuse - before.StackInuse
				members := float64(len(ns.all) * groups)
				b.ReportMetric(float64(bytes)/members/1024, "kb_per_member")
				b.ReportMetric(float64(after.StackInuse-before.StackInuse)/members/1024, "stack_kb_per_member")
				b.ReportMetric(float64(goroutines)/members, "goroutines_per_member")
			}
		})
	}
}

// settle collects garbage as often as happens by itself within some minutes of rest: each
// time stacks that are less than a quarter full are halved.
func settle() {
	for range 3 {
		runtime.GC()
	}
}

// BenchmarkKill measures the time from the end of a node until the groups that it led
// have a leader that has committed in its term.
func BenchmarkKill(b *testing.B) {
	for _, groups := range []int{1, 100, 1000, 10000} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			var all []time.Duration
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
				all = append(all, timesToLeader(b, ns, dead, open)...)
				for _, n := range ns.all {
					n.kill()
				}
			}
			report(b, all)
		})
	}
}

func report(b *testing.B, times []time.Duration) {
	b.Helper()
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1e3, "leader_p50_ms")
	b.ReportMetric(float64(times[len(times)-1].Microseconds())/1e3, "leader_max_ms")
}

// BenchmarkFailover measures, for a group under load, the time from a fault of its leader's
// node until a command is answered again. Use -benchtime 20x.
func BenchmarkFailover(b *testing.B) {
	for _, c := range []struct {
		name string
		do   func(ns *nodes, n *node)
		heal func(ns *nodes, n *node)
	}{
		{"killed", func(_ *nodes, n *node) { go n.kill() }, nil},
		{"paused", func(ns *nodes, n *node) { ns.hold(n, true, true, true) }, func(ns *nodes, n *node) { ns.hold(n, true, true, false) }},
		{"cannot_speak", func(ns *nodes, n *node) { ns.hold(n, true, false, true) }, func(ns *nodes, n *node) { ns.hold(n, true, false, false) }},
		{"cannot_hear", func(ns *nodes, n *node) { ns.hold(n, false, true, true) }, func(ns *nodes, n *node) { ns.hold(n, false, true, false) }},
		{"disk_frozen", func(_ *nodes, n *node) { n.disk.freeze(true) }, func(_ *nodes, n *node) { n.disk.freeze(false) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			var times []time.Duration
			s := &stress{nodes: startNodes(b, true), next: firstGroup + 1}
			s.open(1)
			s.led(1, s.all...)
			for range b.N {
				old := leader(firstGroup, s.all...)
				load := s.busy(old)
				begin := time.Now()
				c.do(s.nodes, old)
				s.propose(firstGroup, s.others(old)...)
				times = append(times, time.Since(begin))
				if c.heal != nil {
					c.heal(s.nodes, old)
				} else {
					old.kill() // waits for its end
					s.restart(old)
				}
				load()
				s.led(1, s.all...)
			}
			s.late.Wait()
			report(b, times)
		})
	}
}

// busy keeps a leader's disk at work until the returned function is called.
func (s *stress) busy(n *node) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	m := n.group(firstGroup)
	s.late.Go(func() {
		for ctx.Err() == nil {
			if _, err := m.Propose(ctx, command()); err != nil {
				time.Sleep(time.Millisecond)
			}
		}
	})
	return cancel
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
