package clock

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/id"
)

// epoch is the true time at which a world begins.
const epoch = 1_800_000_000 * time.Second

// every is the time between two heartbeats, of which each steers.
const every = 250 * time.Millisecond

// world is machines with clocks of their own, the links between them, and a queue that one
// of them leads.
type world struct {
	limit    time.Duration
	now      time.Duration // true time since the Unix epoch
	rng      *rand.Rand
	machines []*machine
	cut      map[[2]int]bool
	leader   *machine // nil: none
	begun    bool     // it knows the time, and stamps
	queue    Queue
	stamp    time.Duration // the latest of the queue
}

type machine struct {
	w        *world
	name     id.NodeID
	place    int
	elapsed  time.Duration // of the monotonic clock, at true time at
	at       time.Duration
	rate     float64       // of both clocks
	wall     time.Duration // by how much the wall clock is ahead of the monotonic one
	halted   bool          // the machine is paused: nothing of it continues
	old      bool          // it runs a build that reports nothing
	steering *Steering     // nil: it is down
	outcomes []string
}

func newWorld(n int, limit time.Duration) *world {
	w := &world{limit: limit, now: epoch, rng: rand.New(rand.NewPCG(1, 2)), cut: map[[2]int]bool{}}
	for i := range n {
		m := &machine{w: w, name: id.NodeID("n" + strconv.Itoa(i+1)), place: i, at: epoch, rate: 1}
		m.elapsed = time.Duration(1+w.rng.Int64N(1e6)) * time.Millisecond
		m.wall = epoch - m.elapsed
		w.machines = append(w.machines, m)
	}
	return w
}

func (w *world) machine(name string) *machine {
	for _, m := range w.machines {
		if string(m.name) == name {
			return m
		}
	}
	panic("no machine " + name)
}

// read lets the machine's clocks go on to the present, and shows them.
func (m *machine) read() Reading {
	if d := m.w.now - m.at; !m.halted {
		m.elapsed += time.Duration(float64(d) * m.rate)
	}
	m.at = m.w.now
	return Reading{Elapsed: m.elapsed, Wall: m.elapsed + m.wall}
}

func (m *machine) start() { m.steering = NewSteering(m.w.limit, m.read()) }

func (m *machine) moment() Moment {
	l := m.steering.Line()
	return l.Moment(m.read().Elapsed)
}

func (m *machine) runs() bool { return m.steering != nil && !m.halted }

// heartbeat lets two machines measure each other: the first one asks, and reports what it found.
// Each way takes up to 2 ms.
func (w *world) heartbeat(a, b *machine) {
	if !a.runs() || !b.runs() || a.old || b.old || w.cut[[2]int{a.place, b.place}] || w.cut[[2]int{b.place, a.place}] {
		return
	}
	claim := func(m *machine) Claim {
		r, l := m.read(), m.steering.Line()
		return Claim{Wall: r.Wall - r.Elapsed, Cluster: l.Offset(r.Elapsed), Grade: l.Grade}
	}
	way := func() { w.now += time.Duration(w.rng.Int64N(int64(2 * time.Millisecond))) }
	x := Exchange{Asked: a.read().Elapsed}
	said := claim(a)
	theirs, knows := a.steering.Measured(b.name, x.Asked)
	way()
	x.Received = b.read().Elapsed
	var m *Measured
	if knows {
		m = &Measured{-theirs.Offset, theirs.Error}
	}
	b.steering.Heard(a.name, x.Received, said, m)
	x.Answered = b.read().Elapsed
	answer := claim(b)
	way()
	x.Heard = a.read().Elapsed
	if got, ok := x.Measure(); ok {
		a.steering.Heard(b.name, x.Heard, answer, &got)
	}
}

// run lets time pass.
func (w *world) run(d time.Duration, each func()) {
	for end := w.now + d; w.now < end; {
		next := min(end, w.now+every)
		for i, a := range w.machines {
			for _, b := range w.machines[i+1:] {
				w.heartbeat(a, b)
			}
		}
		for _, m := range w.machines {
			if m.runs() {
				m.steer()
			}
		}
		w.now = max(w.now, next)
		w.tick()
		if each != nil {
			each()
		}
	}
}

func (m *machine) steer() {
	o := m.steering.Steer(m.read(), len(m.w.machines))
	if o.Step != 0 {
		m.outcomes = append(m.outcomes, "stepped "+round(o.Step))
	}
	if o.Jump != 0 {
		m.outcomes = append(m.outcomes, "jumped "+round(o.Jump))
	}
}

// tick stamps a command of the queue.
func (w *world) tick() {
	if w.leader == nil || !w.leader.runs() {
		return
	}
	m := w.leader.moment()
	if !w.begun && m.Reliable {
		w.begun, w.queue = true, Queue{}
		w.queue.Resume(w.stamp, m)
	}
	if w.begun {
		w.stamp = max(w.stamp, w.queue.Now(m))
	}
}

// lead makes a machine the queue's leader.
func (w *world) lead(m *machine) {
	w.leader, w.begun = m, false
	w.tick()
}

func round(d time.Duration) string {
	d = d.Round(20 * time.Millisecond)
	if d >= 0 {
		return "+" + d.String()
	}
	return d.String()
}

// show reports how far each clock of the cluster, and the queue's time, are from the true time.
func (w *world) show() string {
	var b strings.Builder
	for _, m := range w.machines {
		if m.steering == nil {
			fmt.Fprintf(&b, "%s is down\n", m.name)
			continue
		}
		r := m.read()
		now := m.moment()
		fmt.Fprintf(&b, "%s %s wall %s cluster %s", m.name, m.steering.Line().Grade, round(r.Wall-w.now), round(now.Time-w.now))
		seen := m.steering.Show(r.Elapsed)
		slices.SortFunc(seen, func(x, y Shown) int { return strings.Compare(string(x.Node), string(y.Node)) })
		for _, s := range seen {
			fmt.Fprintf(&b, " sees %s %s", s.Node, round(s.Offset))
		}
		for _, o := range m.outcomes {
			fmt.Fprintf(&b, " %s", o)
		}
		m.outcomes = nil
		b.WriteByte('\n')
	}
	switch {
	case w.leader != nil && !w.begun:
		fmt.Fprintf(&b, "queue led by %s, which awaits the time\n", w.leader.name)
	case w.leader != nil:
		fmt.Fprintf(&b, "queue led by %s %s\n", w.leader.name, round(w.stamp-w.now))
	}
	return b.String()
}
