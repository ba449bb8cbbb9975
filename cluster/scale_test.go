//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
)

// BenchmarkGroups reports what many queues cost three nodes of this process, with connections over
// loopback and logs on disk: to create them, at rest, when a node is lost, and to start
// all nodes again. QUORATE_SCALE_GROUPS is how many there are.
func BenchmarkGroups(b *testing.B) {
	groups := scaleGroups(b)
	for range b.N {
		s := newScale(b, groups, nil)
		s.create()
		s.rest("awake")
		s.kill("c")
		s.restart()
		s.leaders("a", "b", "c")
		s.report("restart_s", s.restarted)
	}
}

// BenchmarkRest reports what three nodes of this process cost that hold no queue: what is left
// is heartbeats, gossip and looks at connections and disks, as often as in a node by default.
func BenchmarkRest(b *testing.B) {
	for range b.N {
		s := newScale(b, 0, func(c *Config) { c.SuspectAfter = 0 })
		s.calm()
		s.measure("rest")
	}
}

// scaleGroups is the number of queues: small unless asked for more, so that running all
// benchmarks stays cheap.
func scaleGroups(tb testing.TB) int {
	text := os.Getenv("QUORATE_SCALE_GROUPS")
	if text == "" {
		return 200
	}
	groups, err := strconv.Atoi(text)
	if err != nil || groups < 1 {
		tb.Fatalf("QUORATE_SCALE_GROUPS is %q: set a number of queues", text)
	}
	return groups
}

// scale is a cluster with many queues.
type scale struct {
	*testNodes
	b      *testing.B
	groups int
	queues []id.QueueUID
	empty  int64 // bytes of the process before there were queues
	idle   int   // goroutines before there were queues

	restarted time.Time // when all nodes began to start again
}

func newScale(b *testing.B, groups int, edit func(*Config)) *scale {
	s := &scale{b: b, groups: groups}
	s.testNodes = newTestNodes(b, func(c *Config) {
		c.CommandTimeout = time.Minute
		// Three nodes in one process share its processors: none is to be taken for dead
		// because it is busy. One that is killed resets its connections.
		c.SuspectAfter = 5 * time.Second
		if edit != nil {
			edit(c)
		}
	})
	s.start("a", "b", "c")
	poll(b, "every node sees all", func() error {
		for _, n := range s.nodes {
			if n.View().NodeCount() < len(s.nodes) { // its queues would have fewer members
				return errWaiting
			}
		}
		return nil
	})
	debug.FreeOSMemory()
	s.empty, s.idle = residentBytes(b), runtime.NumGoroutine()
	return s
}

// inParallel calls f for 0 to n-1 on several goroutines.
func inParallel(n, workers int, f func(i int) error) error {
	var wg sync.WaitGroup
	next := make(chan int)
	failed := make(chan error, workers)
	for range workers {
		wg.Go(func() {
			for i := range next {
				if err := f(i); err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// create declares the queues, as clients of all nodes do at the same time.
func (s *scale) create() {
	s.b.Helper()
	begin := time.Now()
	nodes := []*testNode{s.nodes["a"], s.nodes["b"], s.nodes["c"]}
	s.queues = make([]id.QueueUID, s.groups)
	err := inParallel(s.groups, 96, func(i int) error {
		r, err := nodes[i%len(nodes)].operator.DeclareQueue(context.Background(), catalog.DeclareQueue{
			VHost: "/", Name: fmt.Sprintf("q%05d", i), Type: catalog.QueueQuorum, Durable: true,
		}, len(nodes), false)
		s.queues[i] = r.UID
		return err
	})
	if err != nil {
		s.b.Fatal(err)
	}
	s.report("create_s", begin)
}

// leaders waits until each queue is led by one of the nodes.
func (s *scale) leaders(nodes ...id.NodeID) {
	s.b.Helper()
	deadline := time.Now().Add(time.Minute)
	for _, q := range s.queues {
		for !s.led(q, nodes) {
			if time.Now().After(deadline) {
				for _, n := range nodes {
					s.b.Logf("node %s: %s", n, s.nodes[n].liveness.Explain(q.Group()))
				}
				s.b.Fatalf("queue %s has no leader", q)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func (s *scale) led(q id.QueueUID, nodes []id.NodeID) bool {
	for _, n := range nodes {
		if s.nodes[n].leading(q) != nil {
			return true
		}
	}
	return false
}

// rest measures what members cost that are led and idle.
func (s *scale) rest(name string) {
	s.b.Helper()
	s.leaders("a", "b", "c")
	s.calm()
	s.measure(name)
}

// calm waits until what came before is dealt with: elections and first snapshots leave
// something to do for a while.
func (s *scale) calm() {
	runtime.GC()
	time.Sleep(12 * time.Second) // nothing reports that all has come to rest
}

// measure reports what a member costs at rest.
func (s *scale) measure(name string) {
	s.b.Helper()
	used := cpuSeconds(s.b)
	const pause = 20 * time.Second
	time.Sleep(pause) // not a wait: the time over which use of the CPU is measured
	s.b.ReportMetric(100*(cpuSeconds(s.b)-used)/pause.Seconds(), "cpu_"+name+"_%")
	members := float64(max(1, 3*s.groups))
	debug.FreeOSMemory() // what the runtime does by and by: members that are gone do not count
	s.b.ReportMetric(float64(residentBytes(s.b)-s.empty)/1024/members, "kb_"+name)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s.b.Logf("%s: heap %d MB, stacks %d MB, sys %d MB", name, m.HeapAlloc>>20, m.StackInuse>>20, m.Sys>>20)
	s.b.ReportMetric(float64(max(0, runtime.NumGoroutine()-s.idle))/members, "goroutines_"+name)
	s.b.ReportMetric(float64(openFiles(s.b)), "files")
}

// kill cuts a node off, as a process that ends does, and waits until its queues are led by others.
func (s *scale) kill(n id.NodeID) {
	s.b.Helper()
	var rest []id.NodeID
	for i := range s.nodes {
		if i != n {
			rest = append(rest, i)
		}
	}
	begin := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.nodes[n].mux.Close(ctx) // what is on its way is lost, as it is to be
	s.leaders(rest...)
	s.report("kill_s", begin)
}

// restart stops all nodes and starts them again, and waits until they are ready.
func (s *scale) restart() {
	s.b.Helper()
	begin := time.Now()
	s.stop("a", "b", "c")
	s.report("stop_s", begin)
	s.join = nil
	runtime.GC()
	begin = time.Now()
	s.launch("a", "b", "c")
	for s.nodes["a"].Ready() != nil || s.nodes["b"].Ready() != nil || s.nodes["c"].Ready() != nil {
		time.Sleep(10 * time.Millisecond)
	}
	s.report("ready_s", begin)
	s.restarted = begin
}

func (s *scale) report(name string, since time.Time) {
	s.b.ReportMetric(time.Since(since).Seconds(), name)
	s.b.Logf("%s %.2f", name, time.Since(since).Seconds())
}

// BenchmarkHibernated reports what queues cost that nobody uses, also when all nodes start
// again, and how long it takes to wake one, and all at once.
func BenchmarkHibernated(b *testing.B) {
	groups := scaleGroups(b)
	for range b.N {
		s := newScale(b, groups, func(c *Config) { c.HibernateAfter = 5 * time.Second })
		s.create()
		begin := time.Now()
		s.asleep()
		s.report("asleep_s", begin)
		s.measure("hibernated")
		s.restart()
		s.wake()
		s.asleep()
		s.wakeAll()
	}
}

// asleep waits until no queue is open.
func (s *scale) asleep() {
	s.b.Helper()
	deadline := time.Now().Add(5 * time.Minute)
	for _, n := range s.nodes {
		for len(n.host.Members()) > 0 {
			if time.Now().After(deadline) {
				s.b.Fatalf("%d queues do not hibernate on node %s", len(n.host.Members()), n.cfg.Node)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}

// wake asks for queues one after another.
func (s *scale) wake() {
	s.b.Helper()
	const asked = 50
	begin := time.Now()
	for i := range min(asked, s.groups) {
		if _, err := s.nodes["b"].leaders.Status(context.Background(), s.queues[i]); err != nil {
			s.b.Fatal(err)
		}
	}
	s.b.ReportMetric(float64(time.Since(begin).Milliseconds())/float64(min(asked, s.groups)), "wake_ms")
}

// wakeAll asks for all queues at the same time, each at one of the nodes, and again where time was up.
func (s *scale) wakeAll() {
	s.b.Helper()
	nodes := []*testNode{s.nodes["a"], s.nodes["b"], s.nodes["c"]}
	campaigns := func() (all uint64) {
		for _, n := range nodes {
			all += n.liveness.Stats().Campaigns
		}
		return all
	}
	took, before := make([]time.Duration, s.groups), campaigns()
	begin := time.Now()
	err := inParallel(s.groups, s.groups, func(i int) error {
		_, err := nodes[i%len(nodes)].leaders.Status(context.Background(), s.queues[i])
		for errors.Is(err, traffic.ErrUnavailable) {
			_, err = nodes[i%len(nodes)].leaders.Status(context.Background(), s.queues[i])
		}
		took[i] = time.Since(begin)
		return err
	})
	if err != nil {
		s.b.Fatal(err)
	}
	slices.Sort(took)
	s.b.ReportMetric(took[len(took)/2].Seconds(), "wake_all_p50_s")
	s.b.ReportMetric(took[len(took)-1].Seconds(), "wake_all_last_s")
	s.b.ReportMetric(float64(campaigns()-before)/float64(s.groups), "campaigns_per_queue")
}
