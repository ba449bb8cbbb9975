package serve

import (
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/quorate/quorate/amqp"
	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/vitals"
	"github.com/quorate/quorate/cmd/node/config"
	"github.com/quorate/quorate/grpcapi"
	"github.com/quorate/quorate/internal/incoming"
	"github.com/quorate/quorate/wal"
)

const (
	memoryEvery = time.Second
	// collectEvery is the time after which memory in use is measured again while publishers are held
	// back: without publishes nothing else may run the collector.
	collectEvery = 5 * time.Second
	// highPart is the part of the limit, in quarters, that memory_high defaults to.
	highPart = 3
	// Parts of the limit that caches default to, and the defaults without a limit.
	bodiesShare, tailShare = 8, 16
	// incomingShare is the part for messages that are being received, and that for large answers.
	incomingShare = 8
	defaultBodies = 256 << 20
	// Caches never become smaller than this: raft reads back what it has just written.
	leastBodies, leastTail = 1 << 20, 2 << 20
	// windowShare is the part that the calls of one connection may hold together before they are read; one has no more than
	// mostWindow, which a client far away, or a busy node, makes use of.
	windowShare = 16
	mostWindow  = 256 << 10
	// leastIncoming is the minimum room for incomplete messages, and for large answers, however little memory there is.
	leastIncoming = 8 << 20
	// growSteps is the number of steps in which caches grow back.
	growSteps = 16
	// leastMemory is the least memory with which a node can work: it takes some 40 MiB at rest, and
	// room for traffic.
	leastMemory = 192 << 20
)

// memoryPlan is how much memory the node may use, and for what, in bytes.
type memoryPlan struct {
	limit  int64          // of the Go runtime; 0: none
	high   int64          // publishers are held back above it; 0: never
	caches cluster.Caches // maximum sizes
}

// planOf returns the plan for a limit and the settings, where 0 means the default.
func planOf(limit, high, bodies int64) memoryPlan {
	p := memoryPlan{limit: limit, high: high, caches: cluster.Caches{Bodies: bodies, Tail: wal.DefaultTailBytes}}
	if bodies == 0 {
		p.caches.Bodies = defaultBodies
	}
	if limit == 0 {
		return p
	}
	if high == 0 {
		p.high = limit / 4 * highPart
	}
	if bodies == 0 {
		p.caches.Bodies = min(p.caches.Bodies, max(leastBodies, limit/bodiesShare))
	}
	p.caches.Tail = min(p.caches.Tail, max(leastTail, limit/tailShare))
	return p
}

// incomingOf returns the bounds of incomplete messages, in all and over AMQP. A connection has room
// for the largest message.
func incomingOf(limit int64, set *config.Config) (bytes int64, l amqp.IncomingLimits) {
	bytes, l = budgetOf(limit, set.Limits.IncomingBytes), amqp.IncomingLimits{
		ConnectionBytes: set.Limits.IncomingConnectionBytes, Timeout: set.Timeouts.Incoming,
	}
	if l.ConnectionBytes == 0 {
		l.ConnectionBytes = max(min(amqp.DefaultIncomingConnectionBytes, bytes/2), int64(set.Limits.MaxMessageBytes)+amqp.IncomingSlack)
	}
	return bytes, l
}

// budgetOf returns the bound of messages that are in transit in one direction: the setting, or a share of the limit.
func budgetOf(limit, set int64) int64 {
	switch {
	case set != 0:
		return set
	case limit > 0:
		return max(leastIncoming, min(incoming.DefaultBytes, limit/incomingShare))
	}
	return incoming.DefaultBytes
}

// windowOf returns how much of a call of a client may arrive before it is read.
func windowOf(limit int64) int {
	if limit == 0 {
		return mostWindow
	}
	return int(min(mostWindow, limit/windowShare/grpcapi.DefaultMaxStreams))
}

// planMemory sets the runtime's limit from the container's if GOMEMLIMIT is not set, and plans with
// it.
func (n *node) planMemory() {
	limit, from := debug.SetMemoryLimit(-1), "GOMEMLIMIT"
	if limit == math.MaxInt64 {
		if limit, from = containerMemory("/"), "the container"; limit > 0 {
			limit = limit / 10 * containerPart
			debug.SetMemoryLimit(limit)
		}
	}
	p := planOf(limit, n.cfg.Limits.MemoryHigh, n.cfg.Limits.BodyCacheBytes)
	n.memory.Store(&p)
	bytes, incomingAMQP := incomingOf(limit, n.cfg)
	n.incoming = incoming.New(bytes)
	n.incomingAMQP = amqp.NewIncoming(n.incoming, incomingAMQP)
	n.outgoing = incoming.New(budgetOf(limit, n.cfg.Limits.OutgoingBytes))
	n.logMemory(&p, from)
}

// replanMemory plans again after a reload of the settings.
func (n *node) replanMemory() {
	limit := n.memory.Load().limit
	p := planOf(limit, n.cfg.Limits.MemoryHigh, n.cfg.Limits.BodyCacheBytes)
	n.memory.Store(&p)
	bytes, incomingAMQP := incomingOf(limit, n.cfg)
	n.incomingAMQP.Limit(incomingAMQP)
	n.incoming.Limit(bytes)
	n.outgoing.Limit(budgetOf(limit, n.cfg.Limits.OutgoingBytes))
}

// logMemory logs the plan, and warns where it leaves a node too little to work with.
func (n *node) logMemory(p *memoryPlan, from string) {
	if p.high == 0 {
		return
	}
	attrs := []any{
		"limit_bytes", p.limit, "limit_from", from, "memory_high_bytes", p.high,
		"body_cache_bytes", p.caches.Bodies, "log_cache_bytes", p.caches.Tail,
	}
	if p.high < leastMemory/4*highPart {
		n.log.Warn("memory is too little for a node: publishers may be held back for long; give it as much as least_bytes says, or more (GOMEMLIMIT, limits.memory_high)",
			append(attrs, "least_bytes", int64(leastMemory))...)
		return
	}
	n.log.Info("memory is limited", attrs...)
}

// memoryWatch shrinks caches while memory is short, then holds publishers back.
type memoryWatch struct {
	plan    memoryPlan // the plan in force
	used    func() int64
	collect func() // makes used exact
	limits  func(cluster.Caches)
	broker  *broker.Broker
	now     cluster.Caches // present limits of the caches
	last    time.Time      // time of the last collect
}

// watchMemory looks every memoryEvery until the node stops. It takes up a plan that was changed
// meanwhile.
func (n *node) watchMemory() {
	plan := *n.memory.Load()
	w := memoryWatch{
		plan: plan, used: vitals.MemoryInUse, collect: runtime.GC, limits: n.part.LimitCaches, broker: n.broker, now: plan.caches,
	}
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	for {
		w.follow(*n.memory.Load())
		w.look(time.Now())
		select {
		case <-tick.C:
		case <-n.unwatch:
			return
		}
	}
}

// follow takes over another plan. Caches that were shrunk for lack of memory stay small.
func (w *memoryWatch) follow(p memoryPlan) {
	if p == w.plan {
		return
	}
	whole := w.now == w.plan.caches
	w.plan = p
	to := cluster.Caches{Bodies: min(w.now.Bodies, p.caches.Bodies), Tail: min(w.now.Tail, p.caches.Tail)}
	if whole || p.high == 0 {
		to = p.caches
	}
	w.now = to
	w.limits(to)
	if p.high == 0 && w.broker.Alarms.Now() != nil {
		w.broker.Alarms.End()
	}
}

// look compares what is in use with memory_high. From seven eighths of it, caches are halved. Above
// it, they shrink to their minimum, and if that does not help, publishers are held back until a
// tenth less is in use. Below five eighths the caches grow back step by step.
func (w *memoryWatch) look(now time.Time) {
	if w.plan.high == 0 {
		return
	}
	used, high := w.used(), w.plan.high
	raised := w.broker.Alarms.Now() != nil
	switch least := (cluster.Caches{Bodies: leastBodies, Tail: leastTail}); {
	case used > high && w.now != least:
		used = w.resize(now, least)
	case used > high/8*7 && w.now != least:
		used = w.resize(now, cluster.Caches{Bodies: max(leastBodies, w.now.Bodies/2), Tail: max(leastTail, w.now.Tail/2)})
	case raised && now.Sub(w.last) >= collectEvery:
		used = w.measure(now)
	case used < high/8*5 && w.now != w.plan.caches:
		w.now = cluster.Caches{
			Bodies: min(w.plan.caches.Bodies, w.now.Bodies+w.plan.caches.Bodies/growSteps),
			Tail:   min(w.plan.caches.Tail, w.now.Tail+w.plan.caches.Tail/growSteps),
		}
		w.limits(w.now)
	}
	switch {
	case !raised && used > high:
		w.broker.Alarms.Raise(fmt.Sprintf("this node has %d bytes of memory in use, limits.memory_high is %d, and its caches are at their minimum: "+
			"consume, or give it more memory", used, high))
	case raised && used < high-high/10:
		w.broker.Alarms.End()
	}
}

// resize changes the caches and returns the memory in use after that.
func (w *memoryWatch) resize(now time.Time, to cluster.Caches) int64 {
	w.now = to
	w.limits(to)
	return w.measure(now)
}

// measure runs the collector first: vitals.MemoryInUse knows what the last collection left.
func (w *memoryWatch) measure(now time.Time) int64 {
	w.last = now
	w.collect()
	return w.used()
}
