package client

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// A node that is up may serve its clients badly: it is cut off from the others, its disk hangs, or
// it cannot be reached any more. The guard then moves to another node, but only to one that answers
// and serves: if none does, the queue has no leader anywhere, and moving on would not help.

const (
	// guardEvery is the interval of checks of the nodes in use.
	guardEvery = 100 * time.Millisecond
	// fitService is the health service that is NOT_SERVING while clients would do better on another
	// node.
	fitService = "quorate.fit"
	// doubtShare: if a probe has had no answer for one part in doubtShare of Config.ProbeTimeout,
	// the client logs in elsewhere, in case it has to move.
	doubtShare = 5
)

// guard checks every node that carries calls or streams.
func (c *Client) guard(now time.Time) {
	stuck := c.stuck()
	for _, n := range c.nodes.inUse() {
		if n.following.CompareAndSwap(false, true) {
			c.done.Go(func() { n.follow(c.ctx, c.cfg.ProbeInterval) })
		}
		ask, prepare, leave := n.judge(now, stuck[n], &c.cfg)
		if ask {
			c.done.Go(func() { c.nodes.ask(c.ctx, n) })
		}
		if prepare {
			c.done.Go(func() { c.nodes.logIn(c.ctx, n) })
		}
		if leave && n.seeking.CompareAndSwap(false, true) {
			c.done.Go(func() {
				defer n.seeking.Store(false)
				c.nodes.leaveFor(c.ctx, n)
			})
		}
	}
}

// stuck returns the nodes whose publishers have had no answer since the last call.
func (c *Client) stuck() map[*node]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found map[*node]bool
	for p := range c.publishers {
		if n := p.stuck(); n != nil {
			if found == nil {
				found = map[*node]bool{}
			}
			found[n] = true
		}
	}
	return found
}

// stuck returns the node that has not answered since the last call; nil if there is none.
func (p *Publisher) stuck() *node {
	p.mu.Lock()
	defer p.mu.Unlock()
	unanswered := p.base == p.lookedBase && p.lookedSent > p.base
	p.lookedBase, p.lookedSent = p.base, p.sent
	if !unanswered {
		return nil
	}
	return p.on
}

// inUse returns the nodes that carry calls or streams.
func (ns *nodes) inUse() []*node {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	var used []*node
	for _, n := range ns.all {
		if n.used() {
			used = append(used, n)
		}
	}
	return used
}

// judge reports whether to probe the node now; whether to prepare to leave it, once for each time
// that it does not answer; and whether to look for a better one.
func (n *node) judge(now time.Time, stuck bool, cfg *Config) (ask, prepare, leave bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	asking := !n.asked.IsZero()
	if wait := cfg.ProbeInterval; !asking && (stuck || now.Sub(n.probed) >= wait) {
		n.asked, ask = now, true
	}
	if asking && !n.doubted && now.Sub(n.asked) >= cfg.ProbeTimeout/doubtShare {
		n.doubted, prepare = true, true
	}
	return ask, prepare, n.unfit || asking && now.Sub(n.asked) >= cfg.ProbeTimeout/2
}

// ask probes a node in use. A node that does not answer is lost; a node that only drains keeps its
// streams until it ends them itself.
func (ns *nodes) ask(ctx context.Context, n *node) {
	_, err := n.probe(ctx, ns.cfg.ProbeTimeout)
	n.mu.Lock()
	n.asked, n.probed, n.doubted = time.Time{}, time.Now(), false
	n.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		ns.lost(n, err)
	}
}

// logIn logs in on all other nodes. Checking a password takes a node longer than anything else that
// a client asks for, much longer on a busy machine. This way it is done before the client moves
// there, if it does.
func (ns *nodes) logIn(ctx context.Context, n *node) {
	others, err := ns.candidates(time.Now())
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, ns.cfg.ProbeTimeout)
	defer cancel()
	var asked sync.WaitGroup
	for _, other := range others {
		if other != n {
			asked.Go(func() { _, _ = other.access.WhoAmI(ctx, &brokerv1.WhoAmIRequest{}) }) // the login counts when the client moves
		}
	}
	asked.Wait()
}

// leaveFor moves what runs over a node to another node that serves, if there is one.
func (ns *nodes) leaveFor(ctx context.Context, n *node) {
	ctx, cancel := context.WithTimeout(ctx, ns.cfg.ProbeTimeout/2)
	defer cancel()
	others, err := ns.candidates(time.Now())
	if err != nil {
		return
	}
	answers := make(chan *node, len(others))
	asked := 0
	for _, other := range others {
		if other == n {
			continue
		}
		asked++
		go func() {
			if !other.serves(ctx) {
				other = nil
			}
			answers <- other
		}()
	}
	for range asked {
		if other := <-answers; other != nil {
			ns.cfg.Logger.Debug("another node serves better", "address", n.address, "better", other.address)
			ns.prefer(other)
			n.leave(time.Now())
			return
		}
	}
}

// serves reports whether the node accepts new work and is fit for it.
func (n *node) serves(ctx context.Context) bool {
	r, err := n.health.Check(ctx, &healthv1.HealthCheckRequest{Service: fitService})
	if err == nil && r.GetStatus() == healthv1.HealthCheckResponse_NOT_SERVING {
		return false
	}
	if err != nil && status.Code(err) != codes.NotFound { // NotFound: a node that does not know this service
		return false
	}
	deadline, _ := ctx.Deadline()
	serving, err := n.probe(ctx, time.Until(deadline))
	return err == nil && serving
}

// follow receives the node's own reports on whether clients do better elsewhere, until the stream
// ends. After a pause, guard starts it again.
func (n *node) follow(ctx context.Context, pause time.Duration) {
	defer n.following.Store(false)
	watch, stop := context.WithCancel(ctx)
	stream, err := n.health.Watch(watch, &healthv1.HealthCheckRequest{Service: fitService})
	for err == nil {
		var r *healthv1.HealthCheckResponse
		if r, err = stream.Recv(); err != nil {
			break
		}
		if r.GetStatus() == healthv1.HealthCheckResponse_SERVICE_UNKNOWN { // an older node
			pause = max(pause, refreshInterval)
			break
		}
		n.setUnfit(r.GetStatus() == healthv1.HealthCheckResponse_NOT_SERVING)
	}
	stop()
	n.setUnfit(false) // probes decide from now on
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// setUnfit records whether the node itself reports that clients do better elsewhere.
func (n *node) setUnfit(is bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unfit = is
}
