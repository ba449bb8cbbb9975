package cluster

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/clock"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/id"
)

// Clock reads this machine's clocks. Its methods may be called concurrently.
type Clock interface {
	// Elapsed reads the monotonic clock, since some moment of this process.
	Elapsed() time.Duration
	// Read reads both clocks at one moment.
	Read() clock.Reading
}

// machineClock is the operating system's.
type machineClock struct{ base time.Time }

// newMachineClock shows more than 0 from the beginning.
func newMachineClock() machineClock { return machineClock{time.Now().Add(-time.Second)} }

func (c machineClock) Elapsed() time.Duration { return time.Since(c.base) }

func (c machineClock) Read() clock.Reading {
	now := time.Now()
	return clock.Reading{Elapsed: now.Sub(c.base), Wall: time.Duration(now.UnixNano())}
}

const (
	// clockEvery is the time between two looks at the clocks.
	clockEvery = beatEvery
	// clockTellEvery is the least time between two warnings of the same kind.
	clockTellEvery = time.Minute
)

// nodeClock is this node's clock of the cluster: leaders stamp commands by it, and all that
// has to do with those stamps goes by it. It hears of the other nodes' clocks by beats.
type nodeClock struct {
	c      *Cluster
	source Clock
	limit  time.Duration
	began  time.Duration
	line   atomic.Pointer[clock.Line]

	steps atomic.Uint64
	jumps atomic.Uint64

	mu       sync.Mutex // guards what follows
	steering *clock.Steering
	off      time.Duration // of this node's wall clock from the time of the cluster
	outcome  clock.Outcome
	told     map[string]time.Duration // when each kind of warning was given, by the monotonic clock
}

func newNodeClock(c *Cluster) *nodeClock {
	k := &nodeClock{c: c, source: c.cfg.Clock, limit: c.cfg.ClockSkew / 2, told: map[string]time.Duration{}}
	r := k.source.Read()
	k.began, k.steering = r.Elapsed, clock.NewSteering(c.cfg.ClockSkew, r)
	k.publish()
	return k
}

// publish is called with the lock held, or before anybody else has the clock.
func (k *nodeClock) publish() {
	l := k.steering.Line()
	k.line.Store(&l)
}

// moment returns the time of the cluster. It is for hot paths.
func (k *nodeClock) moment() clock.Moment { return k.line.Load().Moment(k.source.Elapsed()) }

// nowMs returns the time of the cluster in milliseconds since the Unix epoch.
func (k *nodeClock) nowMs() int64 { return k.moment().Time.Milliseconds() }

// startedMs returns when this node started, by the time of the cluster as it is known now.
func (k *nodeClock) startedMs() int64 {
	return (k.began + k.line.Load().Offset(k.source.Elapsed())).Milliseconds()
}

// Now returns the time of the cluster, which all nodes agree on within Config.ClockSkew,
// whatever their wall clocks show.
func (c *Cluster) Now() time.Time { return time.Unix(0, int64(c.clock.moment().Time)) }

// run looks at the clocks until ctx ends.
func (k *nodeClock) run(ctx context.Context) {
	next := time.NewTicker(clockEvery)
	defer next.Stop()
	k.steer() // whoever is alone need not wait
	for {
		select {
		case <-next.C:
			k.steer()
		case <-ctx.Done():
			return
		}
	}
}

// steer decides how the clock goes on.
func (k *nodeClock) steer() {
	nodes := k.nodes()
	k.mu.Lock()
	r := k.source.Read()
	was := k.steering.Line()
	o := k.steering.Steer(r, nodes)
	k.publish()
	now := k.steering.Line()
	before := k.off
	k.off, k.outcome = r.Wall-r.Elapsed-now.Offset(r.Elapsed), o
	off := k.off
	k.mu.Unlock()
	if o.Jump != 0 || was.Grade == clock.Unsettled && now.Grade != clock.Unsettled {
		k.c.host.timers.turn()
	}
	k.tell(r, o, was.Grade, now.Grade, before, off)
}

// nodes returns how many the cluster has: as many as the catalog knows, or as keep it, which
// is known before it is read, or as are to found it.
func (k *nodeClock) nodes() int {
	known := k.c.View().NodeCount()
	if voters, err := k.c.catalog.group.Members(); err == nil && len(voters) > 0 {
		return max(len(voters), known)
	}
	return max(known, k.c.cfg.Expect)
}

// tell tells what an operator should know. A step of the wall clock and a jump of the
// cluster's time are told at once, what lasts every clockTellEvery.
func (k *nodeClock) tell(r clock.Reading, o clock.Outcome, was, grade clock.Grade, before, off time.Duration) {
	if o.Step != 0 {
		k.steps.Add(1)
		if o.Step.Abs() > k.limit {
			k.c.emitNode(event.Event{Kind: event.ClockStepped, Detail: signed(o.Step)})
			k.c.log.Warn("this node's wall clock was set: the time of queues goes on with that of the other nodes",
				"step", o.Step.Round(time.Millisecond), "limit", k.limit, "remedy", "let NTP (chrony) slew the clock; a single node takes a new time over when it is restarted")
		} else {
			k.c.log.Debug("this node's wall clock was set a little", "step", o.Step.Round(time.Millisecond))
		}
	}
	if o.Jump != 0 && was != clock.Unsettled {
		k.jumps.Add(1)
		k.c.emitNode(event.Event{Kind: event.ClockJumped, Detail: signed(o.Jump)})
		k.c.log.Warn("the time of queues was set to what most wall clocks show: this node's monotonic clock stood still, or most wall clocks were set",
			"jump", o.Jump.Round(time.Millisecond), "agree", o.Agree, "known", o.Known, "limit", k.limit)
	}
	switch far := off.Abs() > k.limit; {
	case far && k.due("off", r.Elapsed):
		k.c.log.Warn("this node's wall clock is not the time of the cluster", "offset", off.Round(time.Millisecond), "limit", k.limit,
			"clocks_that_agree", o.Agree, "clocks_known", o.Known, "remedy", clockRemedy)
	case !far && before.Abs() > k.limit:
		k.forget("off")
		k.c.log.Info("this node's wall clock is the time of the cluster again", "offset", off.Round(time.Millisecond))
	}
	if grade != clock.Unsettled && !o.Confirmed && o.Known > 1 && k.due("split", r.Elapsed) {
		k.c.log.Warn("no majority of the nodes' wall clocks agrees: the time of queues goes on as it was",
			"clocks_that_agree", o.Agree, "clocks_known", o.Known, "limit", k.limit, "remedy", clockRemedy)
	}
}

const clockRemedy = "check that NTP runs and is synchronised on all nodes (chronyc tracking, timedatectl); quoratectl nodes ls shows whose clock is off"

// due tells whether a warning may be given again.
func (k *nodeClock) due(kind string, now time.Duration) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	last, given := k.told[kind]
	if given && now-last < clockTellEvery {
		return false
	}
	k.told[kind] = now
	return true
}

func (k *nodeClock) forget(kind string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.told, kind)
}

// signed writes a duration with its sign, to the millisecond.
func signed(d time.Duration) string {
	if d = d.Round(time.Millisecond); d < 0 {
		return d.String()
	}
	return "+" + d.String()
}

// warning tells an operator that this node's wall clock is off; "" if it is not.
func (k *nodeClock) warning() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.off.Abs() <= k.limit {
		return ""
	}
	return fmt.Sprintf("the wall clock of node %q is %s from the time of the cluster, the limit is %s: %s", k.c.cfg.Node, signed(k.off), k.limit, clockRemedy)
}

// Elapsed is of transport.Clock.
func (k *nodeClock) Elapsed() time.Duration { return k.source.Elapsed() }

// Claim is of transport.Clock.
func (k *nodeClock) Claim(to id.NodeID) (clock.Claim, *clock.Measured) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.source.Read()
	l := k.steering.Line()
	c := clock.Claim{Wall: r.Wall - r.Elapsed, Cluster: l.Offset(r.Elapsed), Grade: l.Grade}
	if m, ok := k.steering.Measured(to, r.Elapsed); ok {
		return c, &m
	}
	return c, nil
}

// Heard is of transport.Clock.
func (k *nodeClock) Heard(from id.NodeID, c clock.Claim, m *clock.Measured) {
	k.mu.Lock()
	k.steering.Heard(from, k.source.Elapsed(), c, m)
	unsettled := k.steering.Line().Grade == clock.Unsettled
	k.mu.Unlock()
	if unsettled {
		k.steer()
	}
}

// Restarted is of transport.Clock.
func (k *nodeClock) Restarted(n id.NodeID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.steering.Restarted(n)
}

// ClockStatus is a node's wall clock as another one sees it.
type ClockStatus struct {
	Offset time.Duration // from the time of the cluster
	Error  time.Duration // how far off Offset may be
	Grade  clock.Grade   // of the node's own clock of the cluster
	Off    bool          // Offset is above half of Config.ClockSkew
}

// ClockFigures are those of this node's clock of the cluster.
type ClockFigures struct {
	Steps, Jumps uint64 // of the wall clock, and of the clock of the cluster
	Limit        time.Duration
	Nodes        map[id.NodeID]ClockStatus // this one included
	Confirmed    bool                      // a majority of the cluster's wall clocks agrees
	// QueueAhead is the time of the queue that is furthest from the time of the cluster, of
	// those that this node leads, less that time.
	QueueAhead time.Duration
}

// ClockFigures returns the figures of the moment.
func (c *Cluster) ClockFigures() ClockFigures {
	f := c.clock.figures()
	for _, q := range c.host.all() {
		if q.led.Load() == nil {
			continue
		}
		if a := q.group.Ahead(); a.Abs() > f.QueueAhead.Abs() {
			f.QueueAhead = a
		}
	}
	return f
}

// of returns how a node's wall clock is, nil if nobody knows.
func (f *ClockFigures) of(n id.NodeID) *ClockStatus {
	if s, known := f.Nodes[n]; known {
		return &s
	}
	return nil
}

func (k *nodeClock) figures() ClockFigures {
	f := ClockFigures{Steps: k.steps.Load(), Jumps: k.jumps.Load(), Limit: k.limit, Nodes: map[id.NodeID]ClockStatus{}}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.steering.Show(k.source.Elapsed()) {
		f.Nodes[s.Node] = ClockStatus{Offset: s.Offset, Error: s.Error, Grade: s.Grade, Off: s.Offset.Abs() > k.limit}
	}
	f.Nodes[k.c.cfg.Node] = ClockStatus{Offset: k.off, Grade: k.steering.Line().Grade, Off: k.off.Abs() > k.limit}
	f.Confirmed = k.outcome.Confirmed
	return f
}
