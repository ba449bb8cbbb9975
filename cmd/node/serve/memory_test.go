package serve

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cmd/node/config"
	"github.com/quorate/quorate/internal/testnode"
)

// heap is a node's memory: what it needs, and caches that fill their limits.
type heap struct {
	needs  int64
	caches cluster.Caches
	used   int64 // at the last collection
}

func (h *heap) collect() { h.used = h.needs + h.caches.Bodies + h.caches.Tail }

// Caches are given up before publishers are held back; they wait from the limit on until a
// tenth below it, and caches come back when there is room.
func TestMemoryWatch(t *testing.T) {
	const mib = 1 << 20
	b := broker.New(testnode.Waiting(t), broker.Config{})
	defer b.Close()
	plan := planOf(400*mib, 0, 0) // publishers are held back above 300, caches are 50 and 25
	h := &heap{caches: plan.caches}
	w := memoryWatch{
		plan: plan, broker: b, now: plan.caches, collect: h.collect, used: func() int64 { return h.used },
		limits: func(c cluster.Caches) { h.caches = c },
	}
	least := cluster.Caches{Bodies: leastBodies, Tail: leastTail}
	half := cluster.Caches{Bodies: 25 * mib, Tail: 25 * mib / 2}
	now := time.Unix(1_800_000_000, 0)
	for _, x := range []struct {
		what   string
		needs  int64
		raised bool
		caches cluster.Caches
	}{
		{"at rest", 50 * mib, false, plan.caches},
		{"nearly", 195 * mib, false, half},
		{"that was enough", 195 * mib, false, half},
		{"above the limit, but for the caches", 280 * mib, false, least},
		{"without caches it is too much", 300 * mib, true, least},
		{"less, but not by a tenth", 275 * mib, true, least},
		{"a tenth less", 250 * mib, false, least},
		{"much less: caches come back", 100 * mib, false, cluster.Caches{Bodies: leastBodies + 50*mib/16, Tail: leastTail + 25*mib/16}},
	} {
		h.needs = x.needs
		h.collect()
		now = now.Add(memoryEvery)
		w.look(now)
		if (b.Alarms.Now() != nil) != x.raised || h.caches != x.caches {
			t.Errorf("%s: alarm %+v, caches of %+v; want %t, %+v", x.what, b.Alarms.Now(), h.caches, x.raised, x.caches)
		}
	}
	for range growSteps {
		w.look(now)
	}
	if h.caches != plan.caches {
		t.Errorf("in the end caches of %+v, want %+v", h.caches, plan.caches)
	}
	if n := b.Counters().Alarms; n != 1 {
		t.Errorf("%d alarms, want 1", n)
	}
}

// What is in use is found out anew although nothing makes the collector run.
func TestMemoryWatchCollects(t *testing.T) {
	b := broker.New(testnode.Waiting(t), broker.Config{})
	defer b.Close()
	h := &heap{needs: 1000 << 20}
	h.collect()
	w := memoryWatch{
		plan: planOf(400<<20, 0, 0), broker: b, collect: h.collect, used: func() int64 { return h.used },
		limits: func(c cluster.Caches) { h.caches = c },
	}
	now := time.Unix(1_800_000_000, 0)
	w.look(now)
	if b.Alarms.Now() == nil {
		t.Fatal("there is no alarm")
	}
	h.needs = 0
	for waited := time.Duration(0); b.Alarms.Now() != nil; waited += memoryEvery {
		if waited > collectEvery {
			t.Fatalf("the alarm is on after %v", waited)
		}
		w.look(now.Add(waited))
	}
}

func TestMemoryPlan(t *testing.T) {
	const mib = 1 << 20
	for _, x := range []struct {
		limit, high, bodies int64
		want                memoryPlan
	}{
		{0, 0, 0, memoryPlan{0, 0, cluster.Caches{Bodies: 256 * mib, Tail: 64 * mib}}},
		{0, 500 * mib, 0, memoryPlan{0, 500 * mib, cluster.Caches{Bodies: 256 * mib, Tail: 64 * mib}}},
		{320 * mib, 0, 0, memoryPlan{320 * mib, 240 * mib, cluster.Caches{Bodies: 40 * mib, Tail: 20 * mib}}},
		{320 * mib, 100 * mib, 7 * mib, memoryPlan{320 * mib, 100 * mib, cluster.Caches{Bodies: 7 * mib, Tail: 20 * mib}}},
		{8 << 30, 0, 0, memoryPlan{8 << 30, 6 << 30, cluster.Caches{Bodies: 256 * mib, Tail: 64 * mib}}},
		{4 * mib, 0, 0, memoryPlan{4 * mib, 3 * mib, cluster.Caches{Bodies: leastBodies, Tail: leastTail}}},
	} {
		if got := planOf(x.limit, x.high, x.bodies); got != x.want {
			t.Errorf("%d, %d, %d: %+v, want %+v", x.limit, x.high, x.bodies, got, x.want)
		}
	}
}

// Limits are found in control groups of both versions, of the process and around it.
func TestContainerMemory(t *testing.T) {
	for _, x := range []struct {
		what  string
		files map[string]string
		want  int64
	}{
		{"no control groups", nil, 0},
		{"in a container, version 2", map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "402653184\n",
		}, 402653184},
		{"no limit, version 2", map[string]string{
			"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n",
		}, 0},
		{"a limit around it", map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "1000\n",
		}, 1000},
		{"version 1, its own path is not there", map[string]string{
			"proc/self/cgroup":                              "12:cpu,cpuacct:/x\n5:memory:/docker/abc\n1:name=systemd:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":    "2000\n",
			"sys/fs/cgroup/cpu,cpuacct/x/memory.max":        "5\n",
			"sys/fs/cgroup/memory/other/memory.limit_bytes": "5\n",
		}, 2000},
		{"no limit, version 1", map[string]string{
			"proc/self/cgroup": "5:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 0},
		{"damaged", map[string]string{"proc/self/cgroup": "0\n\nx", "sys/fs/cgroup/memory.max": "-5\n"}, 0},
	} {
		root := t.TempDir()
		for name, text := range x.files {
			path := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := containerMemory(root); got != x.want {
			t.Errorf("%s: %d, want %d", x.what, got, x.want)
		}
	}
	if n := containerMemory("/"); n < 0 || n == math.MaxInt64 {
		t.Errorf("here it is %d", n)
	}
}

// Messages that are not whole have their share of the memory, and a connection has room for
// the largest one, whatever the share is.
func TestIncomingOf(t *testing.T) {
	const mib = 1 << 20
	for _, x := range []struct {
		limit, node, connection int64 // settings
		message                 int
		wantNode, want          int64
	}{
		{0, 0, 0, 16 * mib, 256 * mib, 128 * mib},
		{8192 * mib, 0, 0, 16 * mib, 256 * mib, 128 * mib},
		{512 * mib, 0, 0, 16 * mib, 64 * mib, 32 * mib},
		{200 * mib, 0, 0, 16 * mib, 25 * mib, 17 * mib},
		{16 * mib, 0, 0, mib, 8 * mib, 4 * mib},
		{512 * mib, 100 * mib, 0, 16 * mib, 100 * mib, 50 * mib},
		{512 * mib, 0, 20 * mib, 16 * mib, 64 * mib, 20 * mib},
	} {
		var c config.Config
		c.Limits.IncomingBytes, c.Limits.IncomingConnectionBytes, c.Limits.MaxMessageBytes = x.node, x.connection, x.message
		if bytes, l := incomingOf(x.limit, &c); bytes != x.wantNode || l.ConnectionBytes != x.want {
			t.Errorf("%+v: %d, %+v", x, bytes, l)
		}
		if bytes := budgetOf(x.limit, x.node); bytes != x.wantNode {
			t.Errorf("%+v: %d bytes of answers", x, bytes)
		}
	}
}

// As much of a client's call may arrive before it is read as a connection's share of the memory allows.
func TestWindowOf(t *testing.T) {
	for _, x := range []struct {
		limit int64
		want  int
	}{{0, 256 << 10}, {16 << 30, 256 << 10}, {2_048_000_000, 128_000}, {1_024_000_000, 64_000}} {
		if got := windowOf(x.limit); got != x.want {
			t.Errorf("%d bytes of a call with a limit of %d, want %d", got, x.limit, x.want)
		}
	}
}

// Another plan is followed at once; caches that are given up come back as memory is there.
func TestMemoryPlanChanges(t *testing.T) {
	const mib = 1 << 20
	b := broker.New(testnode.Waiting(t), broker.Config{})
	defer b.Close()
	plan := planOf(0, 0, 0)
	h := &heap{caches: plan.caches, needs: 200 * mib}
	w := memoryWatch{
		plan: plan, broker: b, now: plan.caches, collect: h.collect, used: func() int64 { return h.used },
		limits: func(c cluster.Caches) { h.caches = c },
	}
	now := time.Unix(1_800_000_000, 0)
	look := func(p memoryPlan) {
		now = now.Add(memoryEvery)
		w.follow(p)
		h.collect()
		w.look(now)
	}
	look(plan)
	if b.Alarms.Now() != nil || h.caches != plan.caches {
		t.Errorf("without a limit: %+v, %+v", b.Alarms.Now(), h.caches)
	}
	smaller := planOf(0, 1<<40, 10*mib)
	if look(smaller); h.caches.Bodies != 10*mib {
		t.Errorf("a smaller cache: %+v", h.caches)
	}
	tight := planOf(0, 100*mib, 0)
	if look(tight); b.Alarms.Now() == nil || h.caches != (cluster.Caches{Bodies: leastBodies, Tail: leastTail}) {
		t.Errorf("a lower limit: %+v, %+v", b.Alarms.Now(), h.caches)
	}
	if look(planOf(0, 110*mib, 0)); b.Alarms.Now() == nil || h.caches.Bodies != leastBodies {
		t.Errorf("a limit that is still below what is in use: %+v, %+v", b.Alarms.Now(), h.caches)
	}
	if look(plan); b.Alarms.Now() != nil || h.caches != plan.caches {
		t.Errorf("no limit again: %+v, %+v", b.Alarms.Now(), h.caches)
	}
}
