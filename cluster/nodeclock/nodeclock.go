// Package nodeclock is a node's clock of the cluster: what package clock computes, driven by this machine's clocks
// and by the reports of other nodes in their heartbeats (ADR 0024). It needs only a source of time; Run gets whom it
// notifies.
package nodeclock

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/clock"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
)

// Source reads this machine's clocks. Its methods may be called concurrently.
type Source interface {
	// Elapsed reads the monotonic clock, since some moment of this process.
	Elapsed() time.Duration
	// Read reads both clocks at one moment.
	Read() clock.Reading
}

// machine is the operating system's.
type machine struct{ base time.Time }

// Machine returns the operating system's clocks. It shows more than 0 from the beginning.
func Machine() Source { return machine{time.Now().Add(-time.Second)} }

func (c machine) Elapsed() time.Duration { return time.Since(c.base) }

func (c machine) Read() clock.Reading {
	now := time.Now()
	return clock.Reading{Elapsed: now.Sub(c.base), Wall: time.Duration(now.UnixNano())}
}

const (
	// warnEvery is the least time between two warnings of the same kind.
	warnEvery = time.Minute
)

// Clock is this node's clock of the cluster: leaders stamp commands with its time, and everything that depends on
// those stamps uses it. It learns the other nodes' clocks from heartbeats. Its methods may be called concurrently.
type Clock struct {
	node   id.NodeID
	log    *slog.Logger
	source Source
	limit  time.Duration
	began  time.Duration
	line   atomic.Pointer[clock.Line]

	steps atomic.Uint64
	jumps atomic.Uint64
	heard chan struct{} // of capacity 1: another node has reported its clock while this one has no time

	mu       sync.Mutex // guards what follows
	steering *clock.Steering
	off      time.Duration // of this node's wall clock from the time of the cluster
	outcome  clock.Outcome
	warned   map[string]time.Duration // when each kind of warning was given, by the monotonic clock
}

// Config configures a Clock.
type Config struct {
	Node   id.NodeID
	Source Source
	Skew   time.Duration // by how much nothing expires early; by half of it wall clocks may differ
	Logger *slog.Logger
}

// New returns a clock that has no time of the cluster yet, but this machine's.
func New(c Config) *Clock {
	k := &Clock{
		node: c.Node, log: c.Logger, source: c.Source, limit: c.Skew / 2,
		heard: make(chan struct{}, 1), warned: map[string]time.Duration{},
	}
	r := k.source.Read()
	k.began, k.steering = r.Elapsed, clock.NewSteering(c.Skew, r)
	k.publish()
	return k
}

// publish is called with the lock held, or before anybody else has the clock.
func (k *Clock) publish() {
	l := k.steering.Line()
	k.line.Store(&l)
}

// Moment returns the time of the cluster. It is for hot paths.
func (k *Clock) Moment() clock.Moment { return k.line.Load().Moment(k.source.Elapsed()) }

// NowMs returns the time of the cluster in milliseconds since the Unix epoch.
func (k *Clock) NowMs() int64 { return k.Moment().Time.Milliseconds() }

// StartedMs returns when this node started, by the time of the cluster as it is known now.
func (k *Clock) StartedMs() int64 {
	return (k.began + k.line.Load().Offset(k.source.Elapsed())).Milliseconds()
}

// Listener is called by Run. Its functions must not block.
type Listener struct {
	// Nodes returns how many the cluster has, as far as this node knows.
	Nodes func() int
	// TimeSet is notified that the time has jumped, or is known at last.
	TimeSet func()
	// Emit takes events of this node.
	Emit func(event.Event)
}

// Run checks the clocks at intervals of every, until ctx ends.
func (k *Clock) Run(ctx context.Context, every time.Duration, l Listener) {
	next := time.NewTicker(every)
	defer next.Stop()
	k.steer(l) // whoever is alone need not wait
	for {
		select {
		case <-next.C:
		case <-k.heard:
		case <-ctx.Done():
			return
		}
		k.steer(l)
	}
}

// steer decides how the clock advances.
func (k *Clock) steer(l Listener) {
	nodes := l.Nodes()
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
	if o.Jump != 0 || was.Grade == clock.Unsynchronized && now.Grade != clock.Unsynchronized {
		l.TimeSet()
	}
	k.report(l, r, o, was.Grade, now.Grade, before, off)
}

// report logs what an operator should know. A step of the wall clock and a jump of the
// cluster's time are reported at once, what lasts every warnEvery.
func (k *Clock) report(l Listener, r clock.Reading, o clock.Outcome, was, grade clock.Grade, before, off time.Duration) {
	if o.Step != 0 {
		k.steps.Add(1)
		if o.Step.Abs() > k.limit {
			l.Emit(event.Event{Kind: event.ClockStepped, Detail: signed(o.Step)})
			k.log.Warn("this node's wall clock was set: the time of queues goes on with that of the other nodes",
				"step", o.Step.Round(time.Millisecond), "limit", k.limit, "remedy", "let NTP (chrony) slew the clock; a single node takes a new time over when it is restarted")
		} else {
			k.log.Debug("this node's wall clock was set a little", "step", o.Step.Round(time.Millisecond))
		}
	}
	if o.Jump != 0 && was != clock.Unsynchronized {
		k.jumps.Add(1)
		l.Emit(event.Event{Kind: event.ClockJumped, Detail: signed(o.Jump)})
		k.log.Warn("the time of queues was set to what most wall clocks show: this node's monotonic clock stood still, or most wall clocks were set",
			"jump", o.Jump.Round(time.Millisecond), "agree", o.Agree, "known", o.Known, "limit", k.limit)
	}
	switch far := off.Abs() > k.limit; {
	case far && k.due("off", r.Elapsed):
		k.log.Warn("this node's wall clock is not the time of the cluster", "offset", off.Round(time.Millisecond), "limit", k.limit,
			"clocks_that_agree", o.Agree, "clocks_known", o.Known, "remedy", clockRemedy)
	case !far && before.Abs() > k.limit:
		k.forget("off")
		k.log.Info("this node's wall clock is the time of the cluster again", "offset", off.Round(time.Millisecond))
	}
	if grade != clock.Unsynchronized && !o.Confirmed && o.Known > 1 && k.due("split", r.Elapsed) {
		k.log.Warn("no majority of the nodes' wall clocks agrees: the time of queues goes on as it was",
			"clocks_that_agree", o.Agree, "clocks_known", o.Known, "limit", k.limit, "remedy", clockRemedy)
	}
}

const clockRemedy = "check that NTP runs and is synchronised on all nodes (chronyc tracking, timedatectl); quoratectl nodes ls shows whose clock is off"

// due reports whether a warning may be given again.
func (k *Clock) due(kind string, now time.Duration) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	last, given := k.warned[kind]
	if given && now-last < warnEvery {
		return false
	}
	k.warned[kind] = now
	return true
}

// forget lets the next message of a kind be logged at once.
func (k *Clock) forget(kind string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.warned, kind)
}

// signed writes a duration with its sign, to the millisecond.
func signed(d time.Duration) string {
	if d = d.Round(time.Millisecond); d < 0 {
		return d.String()
	}
	return "+" + d.String()
}

// Warning reports that this node's wall clock is off; "" if it is not.
func (k *Clock) Warning() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.off.Abs() <= k.limit {
		return ""
	}
	return fmt.Sprintf("the wall clock of node %q is %s from the time of the cluster, the limit is %s: %s", k.node, signed(k.off), k.limit, clockRemedy)
}

// Elapsed implements pulse.Clock.
func (k *Clock) Elapsed() time.Duration { return k.source.Elapsed() }

// Claim implements pulse.Clock.
func (k *Clock) Claim(to id.NodeID) (clock.Claim, *clock.Measured) {
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

// Heard implements pulse.Clock.
func (k *Clock) Heard(from id.NodeID, c clock.Claim, m *clock.Measured) {
	k.mu.Lock()
	k.steering.Heard(from, k.source.Elapsed(), c, m)
	unsettled := k.steering.Line().Grade == clock.Unsynchronized
	k.mu.Unlock()
	if !unsettled {
		return
	}
	wait.Wake(k.heard)
}

// Restarted implements pulse.Clock.
func (k *Clock) Restarted(n id.NodeID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.steering.Restarted(n)
}

// Status is a node's wall clock as another one sees it.
type Status struct {
	Offset time.Duration // from the time of the cluster
	Error  time.Duration // the possible error of Offset
	Grade  clock.Grade   // of the node's own clock of the cluster
	Off    bool          // Offset is above half of Config.Skew
}

// Figures are those of this node's clock of the cluster.
type Figures struct {
	Steps, Jumps uint64 // of the wall clock, and of the clock of the cluster
	Limit        time.Duration
	Nodes        map[id.NodeID]Status // this one included
	Confirmed    bool                 // a majority of the cluster's wall clocks agrees
}

// Of returns how a node's wall clock is, nil if nobody knows.
func (f *Figures) Of(n id.NodeID) *Status {
	if s, known := f.Nodes[n]; known {
		return &s
	}
	return nil
}

// Figures returns the figures of the moment.
func (k *Clock) Figures() Figures {
	f := Figures{Steps: k.steps.Load(), Jumps: k.jumps.Load(), Limit: k.limit, Nodes: map[id.NodeID]Status{}}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.steering.Show(k.source.Elapsed()) {
		f.Nodes[s.Node] = Status{Offset: s.Offset, Error: s.Error, Grade: s.Grade, Off: s.Offset.Abs() > k.limit}
	}
	f.Nodes[k.node] = Status{Offset: k.off, Grade: k.steering.Line().Grade, Off: k.off.Abs() > k.limit}
	f.Confirmed = k.outcome.Confirmed
	return f
}
