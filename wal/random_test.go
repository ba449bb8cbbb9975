package wal

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/wal/vfs"
)

// seeds is how many seeds a run takes, unless the variable says otherwise.
const (
	seeds        = 40
	seedVariable = "QUORATE_WAL_SEEDS"
)

// randomGroup is a group and its history since the log was opened.
type randomGroup struct {
	m       model
	begin   model // when the log was opened
	history []historic
}

// historic is a state that a crash may leave.
type historic struct {
	m  model
	at Position // it needs not be older when this is durable
}

// randomRun applies random operations to many groups and compares with the model.
type randomRun struct {
	t      *testing.T
	r      *rand.Rand
	c      Config
	d      *vfs.Mem
	l      *Log
	groups map[id.GroupID]*randomGroup
	trace  []string
}

// Many groups with random operations, restarts and power cuts, synchronous and
// asynchronous, equal a naive model. The seed is the name of a failed subtest.
func TestRandomOperations(t *testing.T) {
	n, steps := seeds, 400
	if testing.Short() {
		n, steps = 8, 250
	}
	if v := os.Getenv(seedVariable); v != "" {
		var err error
		n, err = strconv.Atoi(v)
		ok(t, err)
	}
	for seed := range n {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			x := &randomRun{t: t, r: rand.New(rand.NewPCG(uint64(seed), 5)), d: vfs.NewMem(), groups: map[id.GroupID]*randomGroup{}}
			x.c = testConfig()
			x.c.SegmentBytes = []int64{4096, 8192, 20000}[x.r.IntN(3)]
			x.c.TailBytes = []int64{-1, 1000, 1 << 20}[x.r.IntN(3)]
			x.c.batchBytes = []int{0, 300, 3000}[x.r.IntN(3)]
			x.c.sharedBytes = []int{1, 100, 1 << 20}[x.r.IntN(3)]
			x.c.MaxPendingBytes = []int64{2000, 1 << 20}[x.r.IntN(2)]
			x.c.Spares = []int{-1, 1, 3}[x.r.IntN(3)]
			x.c.manual = x.r.IntN(2) == 0
			x.c.markAfter = []time.Duration{time.Hour, time.Nanosecond}[x.r.IntN(2)]
			x.l = open(t, x.d, x.c)
			for range steps {
				x.step()
			}
			x.restart(false)
			ok(t, x.l.Close())
		})
	}
}

func (x *randomRun) step() {
	switch n := x.r.IntN(100); {
	case n < 3:
		x.restart(true)
	case n < 5:
		x.restart(false)
	case n < 10:
		x.trace = append(x.trace, "tidy")
		if x.c.manual {
			rollerIdle(x.l)
			ok(x.t, x.l.tidy())
		}
	default:
		x.change()
	}
}

func (x *randomRun) change() {
	group := id.GroupID(1 + x.r.IntN(5))
	rg := x.groups[group]
	if rg == nil {
		rg = &randomGroup{m: newModel(), begin: newModel()}
		x.groups[group] = rg
	}
	g := groupOf(x.t, x.l, group)
	wait := x.r.IntN(3) == 0
	for _, o := range x.pick(rg.m) {
		x.trace = append(x.trace, fmt.Sprintf("%s: %s", group, o.name))
		run := o.run
		if wait {
			run = func(l *Log, g *GroupLog) error { return durably(o, l, g) }
		}
		if err := run(x.l, g); err != nil {
			x.t.Fatalf("%s: %v", o.name, err)
		}
		for _, m := range o.steps(rg.m.clone()) {
			rg.m = m
			rg.history = append(rg.history, historic{m.clone(), g.Appended()})
		}
	}
	if x.r.IntN(4) == 0 {
		x.compare(group)
		account(x.t, x.l)
	}
}

// pick returns operations that make sense together.
func (x *randomRun) pick(m model) []op {
	r := x.r
	term1 := m.term
	size := 1 + r.IntN(700)
	if r.IntN(40) == 0 {
		size = 6000
	}
	count := 1 + r.IntN(8)
	within := func() uint64 { return m.first + uint64(r.IntN(int(m.next-m.first))) }
	if m.next > maxIndex-60 {
		return []op{deleteGroup()}
	}
	n := r.IntN(100)
	if m.first == m.next && n >= 10 && n < 60 {
		n = 99
	}
	switch {
	case n < 5:
		return []op{term(term1 + 1)}
	case n < 10:
		return []op{term(term1 + 1), vote(term1+1, fmt.Sprintf("n%d", r.IntN(3)))}
	case n < 17:
		from := within()
		return []op{remove(from, m.next-1), store(max(from, m.first), term1, count, size)}
	case n < 20:
		return []op{store(within(), term1, count, size)}
	case n < 35:
		return []op{remove(1, within())}
	case n < 40: // a snapshot from the leader
		to := m.next + uint64(r.IntN(10))
		var brought []uint64
		for i := uint64(1); i < to; i++ {
			if r.IntN(12) == 0 {
				brought = append(brought, i)
			}
		}
		if r.IntN(3) == 0 { // that breaks off
			return []op{bring(term1, size, brought...), dropBrought(uint64(r.IntN(int(to))))}
		}
		return []op{bring(term1, size, brought...), remove(m.first, m.next-1), store(to, term1, 1, size)}
	case n < 60:
		var live []uint64
		odds := 1 + r.IntN(10)
		for i := uint64(1); i < m.first; i++ {
			if r.IntN(odds) == 0 {
				live = append(live, i)
			}
		}
		if r.IntN(3) == 0 {
			return []op{retainUpTo(uint64(r.IntN(int(m.next))), live...)}
		}
		return []op{retain(live...)}
	case n < 61:
		return []op{deleteGroup()}
	default:
		return []op{store(m.next, term1, count, size)}
	}
}

func (x *randomRun) compare(group id.GroupID) {
	x.t.Helper()
	if got, want := look(x.t, groupOf(x.t, x.l, group)), x.groups[group].m.String(); got != want {
		x.fatal("%s:\ngot  %s\nwant %s", group, got, want)
	}
}

func (x *randomRun) fatal(format string, args ...any) {
	x.t.Helper()
	for _, line := range x.trace[max(0, len(x.trace)-30):] {
		x.t.Log(line)
	}
	x.t.Fatalf(format, args...)
}

// restart closes the log, or cuts the power, and opens it again.
func (x *randomRun) restart(crash bool) {
	x.trace = append(x.trace, fmt.Sprintf("restart, crash %t", crash))
	durable := x.l.Durable()
	if crash {
		old := x.d
		x.d = old.Crash(vfs.Loss(x.r.IntN(int(vfs.Losses))), x.r)
		_ = x.l.Close() // its disk is off
	} else {
		ok(x.t, x.l.Close())
		durable = ^Position(0)
	}
	x.l = open(x.t, x.d, x.c)
	if gap, lost := x.l.Gap(), x.l.Lost(); gap != nil || len(lost) > 0 {
		x.fatal("lost: %v, gap: %v", lost, gap)
	}
	for group, rg := range x.groups {
		got := look(x.t, groupOf(x.t, x.l, group))
		x.recovered(group, rg, got, durable)
		rg.begin, rg.history = rg.m.clone(), nil
	}
}

// recovered finds the state that a group has come back in, and continues from there.
func (x *randomRun) recovered(group id.GroupID, rg *randomGroup, got string, durable Position) {
	x.t.Helper()
	if durable == ^Position(0) || len(rg.history) == 0 {
		if want := rg.m.String(); got != want {
			x.fatal("%s:\ngot  %s\nwant %s", group, got, want)
		}
		return
	}
	// States older than the last durable one must not come back.
	oldest := 0
	for i, h := range rg.history {
		if h.at <= durable {
			oldest = i
		}
	}
	if rg.history[0].at > durable {
		oldest = -1
	}
	if oldest < 0 && got == rg.begin.String() {
		rg.m = rg.begin
		return
	}
	for i := max(oldest, 0); i < len(rg.history); i++ {
		if got == rg.history[i].m.String() {
			rg.m = rg.history[i].m
			return
		}
	}
	var want []string
	for _, h := range rg.history[max(oldest, 0):] {
		want = append(want, h.m.String())
	}
	x.fatal("%s: after a crash (durable %d):\ngot  %s\nwant one of %q", group, durable, got, slices.Compact(want))
}

// account counts again what is live in each segment.
func account(t *testing.T, l *Log) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	live := map[uint32]int64{}
	add := func(at loc) { live[at.seg] += int64(at.size) }
	for _, g := range l.groups {
		for _, x := range []*index{&g.ix, &g.rt} {
			x.all(span{0, ^uint64(0)}, func(_ uint64, at loc) bool {
				add(at)
				return true
			})
		}
		add(g.at)
		for _, k := range g.keeps {
			add(k.at)
		}
	}
	for _, at := range l.deleted {
		add(at)
	}
	for _, s := range l.segs {
		if s.live != live[s.seq] {
			t.Fatalf("segment %d has %d live bytes, not %d", s.seq, live[s.seq], s.live)
		}
	}
}
