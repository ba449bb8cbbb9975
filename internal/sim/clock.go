package sim

import (
	"time"

	"github.com/quorate/quorate/clock"
	"github.com/quorate/quorate/quorumq"
)

const (
	// heartbeatMs is the time between two heartbeats of nodes, by which they compare their clocks.
	heartbeatMs = 250
	// healHeartbeats is for how many heartbeats all clocks are right until all nodes must know the time.
	healHeartbeats = 20
	// wayMs is the longest way of a heartbeat.
	wayMs = 4
	// rightMs is by how much wall clocks that are right may be ahead.
	rightMs = 100
	// judgeMs is what is allowed beside the skew limit: that, ways of heartbeats, drift between them.
	judgeMs = rightMs + 50
)

// clocks are those of a node's machine, which go on while its process is down.
type clocks struct {
	w       *world
	at      time.Duration // the true time up to which what follows is known
	elapsed time.Duration // of the monotonic clock
	rate    float64       // of both
	wall    time.Duration // by how much the wall clock is ahead of the monotonic one

	steering *clock.Steering
	stale    bool // off the time after a pause, or for lack of others, and not yet aware of it
}

// truth is the true time, since the Unix epoch.
func (w *world) truth() time.Duration { return time.Duration(w.now) * time.Millisecond }

// newClocks starts the clocks of a machine whose wall clock is ahead by so many milliseconds.
func newClocks(w *world, ahead int64) clocks {
	c := clocks{w: w, at: w.truth(), rate: 1, elapsed: time.Duration(1+w.clockRNG.Int64N(1e9)) * time.Millisecond}
	c.wall = c.at - c.elapsed + time.Duration(ahead)*time.Millisecond
	return c
}

// read returns what the clocks show a little later than now.
func (c *clocks) read(later time.Duration) clock.Reading {
	c.elapsed += time.Duration(float64(c.w.truth()-c.at) * c.rate)
	c.at = c.w.truth()
	e := c.elapsed + later
	return clock.Reading{Elapsed: e, Wall: e + c.wall}
}

// start is that of a process, which knows nothing.
func (c *clocks) start() { c.steering = clock.NewSteering(clock.DefaultLimit, c.read(0)) }

// restartClocks is the start of another process; others measure its clock anew.
func (n *node) restartClocks() {
	n.clocks.start()
	for _, o := range n.w.nodes {
		o.clocks.steering.Restarted(n.name)
	}
}

func (c *clocks) moment() clock.Moment {
	l := c.steering.Line()
	return l.Moment(c.read(0).Elapsed)
}

func (c *clocks) grade() clock.Grade {
	l := c.steering.Line()
	return l.Grade
}

func (c *clocks) claim(r clock.Reading) clock.Claim {
	l := c.steering.Line()
	return clock.Claim{Wall: r.Wall - r.Elapsed, Cluster: l.Offset(r.Elapsed), Grade: l.Grade}
}

// off is how far the clock of the cluster is from the truth.
func (c *clocks) off() time.Duration { return (c.moment().Time - c.w.truth()).Abs() }

// right sets the clocks almost right.
func (c *clocks) right() {
	c.rate = 1
	c.read(0)
	c.wall = c.at - c.elapsed + time.Duration(c.w.clockRNG.Int64N(rightMs))*time.Millisecond
}

// heartbeats lets nodes compare their clocks, once in heartbeatMs.
func (w *world) heartbeats() {
	if !w.swarm.clocks || w.now < w.heartbeatAt {
		return
	}
	w.heartbeatAt = w.now + heartbeatMs
	for i, a := range w.nodes {
		for _, b := range w.nodes[i+1:] {
			if w.connected(a.idx, b.idx) && w.cfg.Fault != FaultLonelyClock {
				w.heartbeat(a, b)
			}
		}
	}
	for _, n := range w.nodes {
		if !n.up {
			continue
		}
		o := n.clocks.steering.Steer(n.clocks.read(0), members)
		n.clocks.stale = (n.clocks.stale || !w.hearsTime(n)) && n.clocks.off() > clock.DefaultLimit
		if o.Jump != 0 {
			w.event("clock jumps node ms", int64(n.idx), o.Jump.Milliseconds())
		}
	}
}

// hearsTime reports whether a node reaches a majority of machines that are right, itself among them:
// who does not cannot know the time.
func (w *world) hearsTime(n *node) bool {
	right := 0
	for _, o := range w.nodes {
		if o.idx != w.wrong && !o.clocks.stale && (o == n || w.connected(n.idx, o.idx)) {
			right++
		}
	}
	return right > members/2
}

// heartbeat lets the first of two nodes ask the second, and report to it what it found before.
func (w *world) heartbeat(a, b *node) {
	way := func() time.Duration { return time.Duration(w.clockRNG.Int64N(wayMs*1000)) * time.Microsecond }
	there, back := way(), way()
	asks, gets, hears := a.clocks.read(0), b.clocks.read(there), a.clocks.read(there+back)
	if m, known := a.clocks.steering.Measured(b.name, asks.Elapsed); known {
		b.clocks.steering.Heard(a.name, gets.Elapsed, a.clocks.claim(asks), &clock.Measured{Offset: -m.Offset, Error: m.Error})
	} else {
		b.clocks.steering.Heard(a.name, gets.Elapsed, a.clocks.claim(asks), nil)
	}
	x := clock.Exchange{Asked: asks.Elapsed, Received: gets.Elapsed, Answered: gets.Elapsed, Heard: hears.Elapsed}
	if m, ok := x.Measure(); ok {
		a.clocks.steering.Heard(b.name, hears.Elapsed, b.clocks.claim(gets), &m)
	}
}

// time returns the queue's time at a leader, which is its newest stamp if it is given out.
func (r *replica) time(give bool) quorumq.Time {
	if !r.g.w.swarm.clocks {
		return r.node.clock()
	}
	m := r.node.clocks.moment()
	switch r.g.w.cfg.Fault {
	case FaultWallClock:
		return quorumq.Time(r.node.clocks.read(0).Wall.Milliseconds())
	case FaultWallBack:
		return quorumq.Time(min(m.Time, r.node.clocks.read(0).Wall).Milliseconds())
	default:
	}
	if give {
		return quorumq.Time(r.clock.Now(m).Milliseconds())
	}
	return quorumq.Time(r.clock.Peek(m).Milliseconds())
}

// stamp says when a command was proposed.
func (r *replica) stamp(e *entry) {
	e.now, e.truth = r.time(true), r.g.w.now
	c := &r.node.clocks
	e.unsure = r.g.w.swarm.clocks && (c.grade() == clock.Presumed || c.stale)
}

// lead begins a leadership at the newest stamp of the log.
func (r *replica) lead() {
	if !r.g.w.swarm.clocks {
		return
	}
	r.clock = clock.Queue{}
	r.clock.Resume(time.Duration(r.g.ledger.now)*time.Millisecond, r.node.clocks.moment())
}

// knowsTime reports whether a node may lead: before that it takes no command (TTL-8).
func (n *node) knowsTime() bool {
	return !n.w.swarm.clocks || n.clocks.grade() != clock.Unsynchronized || n.w.cfg.Fault == FaultHastyClock
}

// passing is how far a queue's time has advanced, less the true time, in ms.
type passing struct {
	known     bool
	low, high int64
}

// judgeTime holds a queue's time against the true one at every command: nothing may expire early,
// or stand still, by more than the skew limit (TTL-8). What a leader did that no majority
// of clocks has confirmed is not held against it, nor what it did just after it was paused.
func (g *group) judgeTime(e *entry) {
	if !g.w.swarm.clocks {
		return
	}
	p := &g.passing
	ahead := int64(g.ledger.now) - e.truth
	if e.unsure || !p.known {
		// Where such a leader has left the queue's time counts once that is right again.
		*p = passing{known: !e.unsure && max(ahead, -ahead) <= clock.DefaultLimit.Milliseconds(), low: ahead, high: ahead}
		return
	}
	p.low, p.high = min(p.low, ahead), max(p.high, ahead)
	if p.high-p.low <= clock.DefaultLimit.Milliseconds()+judgeMs {
		return
	}
	if ahead == p.high {
		g.w.broke("TTL-8", "queue %s: what came in %d ms ago by its time expires %d ms early", g.name, ahead-p.low, ahead-p.low)
		return
	}
	g.w.broke("TTL-8", "queue %s: its time stood still for %d ms", g.name, p.high-ahead)
}

// setClock sets one node's clocks wrong, or right; only one node has wrong ones at a time.
func (w *world) setClock() {
	if w.wrong >= 0 && w.clockRNG.IntN(3) == 0 {
		w.event("clock right node", int64(w.wrong))
		w.nodes[w.wrong].clocks.right()
		w.wrong = -1
		return
	}
	if w.wrong < 0 {
		w.wrong = w.clockRNG.IntN(members)
	}
	c := &w.nodes[w.wrong].clocks
	c.read(0)
	if w.clockRNG.IntN(4) == 0 {
		c.rate = 1 + (w.clockRNG.Float64()-0.5)/50
		w.event("clock drifts node ppm", int64(w.wrong), int64((c.rate-1)*1e6))
		return
	}
	by := []int64{100, 1000, 60_000, 3_600_000}[w.clockRNG.IntN(4)]
	by += w.clockRNG.Int64N(by)
	if w.clockRNG.IntN(2) == 0 {
		by = -by
	}
	w.event("clock set node ms", int64(w.wrong), by)
	c.wall += time.Duration(by) * time.Millisecond
}

// pauseOne is a machine that is paused for a while in which nothing happens anywhere: its
// monotonic clock stands still, its wall clock is right again afterwards.
func (w *world) pauseOne() {
	n, d := w.nodes[w.clockRNG.IntN(members)], w.clockRNG.Int64N(5000)
	for _, o := range w.nodes {
		if o.clocks.stale {
			return // else most of them would be
		}
	}
	w.event("pause node ms", int64(n.idx), d)
	for _, o := range w.nodes {
		o.clocks.read(0)
	}
	w.now += d
	n.clocks.at, n.clocks.stale = w.truth(), true
	n.clocks.wall += time.Duration(d) * time.Millisecond
}

// rest is a time for which all nodes are down.
func (w *world) rest() {
	for _, n := range w.nodes {
		if n.up {
			n.crash()
		}
	}
	d := w.clockRNG.Int64N(3 * 3_600_000)
	w.event("rest ms", d)
	w.now += d
}

// healClocks sets all clocks right, and lets the nodes know.
func (w *world) healClocks() {
	if !w.swarm.clocks {
		return
	}
	if w.wrong >= 0 {
		w.nodes[w.wrong].clocks.right()
		w.wrong = -1
	}
	for range healHeartbeats {
		w.heartbeatAt = 0
		w.heartbeats()
		w.now += heartbeatMs
	}
	for _, n := range w.nodes {
		if off := n.clocks.off(); off > clock.DefaultLimit {
			w.broke("TTL-8", "node %s is %v from the time although all clocks are right", n.name, off)
		}
	}
}
