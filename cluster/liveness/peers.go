package liveness

import (
	"time"

	"github.com/quorate/quorate/cluster/pulse"
	"github.com/quorate/quorate/id"
)

// awake begins a tick that was meant to come after the given wait. A node that slept
// itself must not take that for the silence of others.
func (c *core) awake(now time.Time, waited time.Duration) {
	if !c.ticked.IsZero() && now.Sub(c.ticked) > waited+c.config.SuspectAfter/2 {
		c.lenientUntil = now.Add(c.config.SuspectAfter)
	}
	c.ticked = now
}

// look judges a peer by its connection, and by gossip that may hold it for dead.
func (c *core) look(now time.Time, n id.NodeID, silent time.Duration, up, dead bool) {
	p, limit := c.peer(n), c.config.SuspectAfter
	if dead || c.unsteady(now, p) {
		limit /= 2
	}
	p.silent = silent
	c.judge(now, n, !up || silent >= limit && !now.Before(c.lenientUntil))
}

// note records for how long the next heartbeat of a peer has been due, which does not depend on the peer's distance,
// and whether there is a link to it.
func (c *core) note(now time.Time, n id.NodeID, late time.Duration, up bool) {
	c.peer(n).steady.see(now, !up || late >= c.config.SuspectAfter/4 && !now.Before(c.lenientUntil))
}

// unsteady reports whether a peer is, and fewer peers are than nodes are steady: where most links come and go, it is
// the network, or this node, and nobody else would lead better.
func (c *core) unsteady(now time.Time, p *peer) bool {
	if !p.steady.unsteady(now) {
		return false
	}
	steady, not := 1, 0 // this node
	for _, o := range c.peers {
		switch {
		case o.steady.unsteady(now):
			not++
		case !o.lost:
			steady++
		}
	}
	return steady > not
}

// judge discards what the peer has reported about itself, and checks again all groups that depend on it.
func (c *core) judge(now time.Time, n id.NodeID, lost bool) {
	p := c.peer(n)
	if p.lost == lost {
		return
	}
	p.lost, p.judged = lost, now
	if lost {
		p.steady.see(now, true) // a link that broke may be up again at the next look
	}
	p.mismatchedSince, p.askAt, p.askWait = time.Time{}, time.Time{}, 0
	if lost {
		p.said, p.saidAt, p.toAsk = digest{}, time.Time{}, false
	}
	c.config.Judged()
	c.review(now, n, !lost)
}

// heartbeat records what a peer reports about itself.
func (c *core) heartbeat(now time.Time, n id.NodeID, b pulse.Heartbeat) {
	p := c.peer(n)
	p.said, p.saidAt = digest{b.Led, b.LedHash}, now
	if p.stalled != b.Stalled {
		p.stalled = b.Stalled
		c.review(now, n, false)
	}
}

// review checks all groups after the judgement of a node changed.
func (c *core) review(now time.Time, n id.NodeID, back bool) {
	for _, m := range c.groups {
		switch {
		case m.leads() && m.follows(n):
			c.checkQuorum(now, m)
			if back {
				c.pushes[m.group] = struct{}{}
			}
			continue
		case m.leads(), m.leader != n && !m.votes(n):
			continue
		}
		c.assess(now, m)
		if c.needs[m.group] != nil && !m.busy {
			m.notBefore = now
		}
	}
}

// mismatched returns the peers to ask for the groups that they lead, because their heartbeats have
// sent something else for a while, or nothing, though they answer. While that does not
// change, a peer is asked ever less often.
func (c *core) mismatched(now time.Time) []id.NodeID {
	var ask []id.NodeID
	for n, p := range c.peers {
		if p.toAsk {
			if !now.Before(p.askAt) {
				p.toAsk, p.askAt = false, now.Add(c.config.MismatchAfter)
				ask = append(ask, n)
			}
			continue
		}
		heard := !p.saidAt.IsZero() && now.Sub(p.saidAt) < 2*c.config.SuspectAfter
		if p.lost || heard && p.said == p.believed || !heard && p.believed.count == 0 {
			p.mismatchedSince, p.askWait = time.Time{}, 0
			continue
		}
		if p.mismatchedSince.IsZero() {
			p.mismatchedSince = now
			continue
		}
		if now.Sub(p.mismatchedSince) < c.config.MismatchAfter {
			continue
		}
		news := p.asked != [2]digest{p.said, p.believed} && !now.Before(p.askAt.Add(c.config.MismatchAfter-p.askWait))
		if news {
			p.askWait = 0
		}
		if !news && now.Before(p.askAt) {
			continue
		}
		p.askWait = min(max(2*p.askWait, c.config.MismatchAfter), maxAskWait)
		p.askAt = now.Add(p.askWait)
		p.asked = [2]digest{p.said, p.believed}
		if p.believed.count > 0 {
			ask = append(ask, n)
		}
	}
	return ask
}

// ledBy returns the groups that a peer leads, as far as members here know.
func (c *core) ledBy(n id.NodeID) []belief {
	var all []belief
	for _, m := range c.groups {
		if m.believes == n || !m.votes(c.config.Node) && m.leader == n && !m.denied {
			all = append(all, belief{m.group, m.term})
		}
	}
	return all
}

// belief is a group and the term in which a leader was known.
type belief struct {
	group id.GroupID
	term  uint64
}

// deny records a node's answer that it does not lead a group.
func (c *core) deny(now time.Time, n id.NodeID, b belief) {
	m := c.groups[b.group]
	if m == nil || m.leader != n || m.term != b.term {
		return
	}
	m.denied = true
	c.assess(now, m)
}
