package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/placement"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/id"
)

// ReconcileConfig says how queues get back to the number of members that they should have
// (RE-4). Zero values are the defaults.
type ReconcileConfig struct {
	// Disabled leaves everything to operators, lost members included.
	Disabled bool
	Interval time.Duration // between two looks at all queues; 0: 60 min
	// Delay is the time that a node must have come or gone, or a policy have changed, before
	// members move, and voters of the catalog; 0: 10 s.
	Delay time.Duration
	// AutoRemove is the time after which a node that is not seen is lost for good, so that
	// others take its place; 0: never.
	AutoRemove time.Duration
	// ReplaceAfter is the time after which a node is let in that has lost its disk, and comes with
	// an empty data directory, if nothing is lost by that; 0: an operator decides.
	ReplaceAfter time.Duration
	// KeepLeaders leaves leaders where they are; else those that have piled up are spread
	// when nodes have neither come nor gone for LeadersDelay, and every Interval (RE-10).
	KeepLeaders  bool
	LeadersDelay time.Duration // 0: 30 s
}

const (
	defaultReconcileInterval = time.Hour
	defaultReconcileDelay    = 10 * time.Second
	defaultLeadersDelay      = 30 * time.Second
	// repairTick is the time between two looks at lost members of this node, and repairRest
	// while there are none, should one have gone unnoticed.
	repairTick = 500 * time.Millisecond
	repairRest = 30 * time.Second
)

// pace says when to look at all queues.
type pace struct {
	interval, delay time.Duration
	nodes           string                       // as they were last seen
	policies        map[string]catalog.PolicySet // same, by vhost
	changed         time.Time                    // since when they are so; zero: looked at since
	last            time.Time                    // when queues were looked at
	again           bool                         // something was left
}

// due tells whether to look at all queues now.
func (p *pace) due(now time.Time, nodes string, policies map[string]catalog.PolicySet) bool {
	if nodes != p.nodes || !maps.Equal(policies, p.policies) {
		p.nodes, p.policies, p.changed = nodes, policies, now
	}
	settled := !p.changed.IsZero() && now.Sub(p.changed) >= p.delay
	repeat := p.again && now.Sub(p.last) >= p.delay
	if !settled && !repeat && now.Sub(p.last) < p.interval {
		return false
	}
	p.last, p.changed, p.again = now, time.Time{}, false
	return true
}

// reconcileSizes brings queues to their size, and spreads their leaders, while this node leads
// the catalog.
func (c *Cluster) reconcileSizes() {
	cfg := c.cfg.Reconcile
	fresh := func() (members, leaders pace, unseen map[id.NodeID]time.Time) {
		now := time.Now()
		return pace{interval: cfg.Interval, delay: cfg.Delay, last: now},
			pace{interval: cfg.Interval, delay: cfg.LeadersDelay, last: now}, map[id.NodeID]time.Time{}
	}
	p, leaders, unseen := fresh()
	told := map[id.NodeID]string{} // why a node that waits was not let in
	for busy := true; c.catalog.Turn(busy) == nil; {
		busy = true
		if !c.catalog.Leads() {
			p, leaders, unseen = fresh()
			continue
		}
		now := time.Now()
		nodes, lost := c.look(now, unseen)
		if !cfg.KeepLeaders && leaders.due(now, nodes, nil) {
			c.spreadLeaders()
		}
		if p.due(now, nodes, policySets(c.View())) {
			p.again = c.complete(lost)
		}
		waiting := c.replaceLost(now, told)
		busy = waiting || p.again || !p.changed.IsZero() || !leaders.changed.IsZero() || len(unseen) > 0
	}
}

// policySets stands for the policies of all vhosts, as target-group-size is one of their
// keys.
func policySets(v *catalog.View) map[string]catalog.PolicySet {
	sets := map[string]catalog.PolicySet{}
	for h := range v.VHosts() {
		sets[h.Name] = v.PolicySet(h.Name)
	}
	return sets
}

// look notes which nodes are seen, and tells which are lost for good.
func (c *Cluster) look(now time.Time, unseen map[id.NodeID]time.Time) (nodes string, lost map[id.NodeID]bool) {
	lost = map[id.NodeID]bool{}
	var b strings.Builder
	for n := range c.View().Nodes() {
		_, up := c.mux.Connected(n.ID)
		since, away := unseen[n.ID]
		switch {
		case up || n.ID == c.cfg.Node:
			delete(unseen, n.ID)
		case !away:
			unseen[n.ID] = now
		case c.cfg.Reconcile.AutoRemove > 0 && now.Sub(since) >= c.cfg.Reconcile.AutoRemove:
			lost[n.ID] = true
		}
		_, away = unseen[n.ID]
		fmt.Fprintf(&b, "%q %v %v;", n.ID, away, lost[n.ID])
	}
	return b.String(), lost
}

// wanted returns how many members a queue should have.
func (c *Cluster) wanted(r *catalog.QueueRecord) int {
	if r.Size > 0 {
		return r.Size
	}
	return c.policies.GroupSize(c.View(), r)
}

// complete carries plans out until nothing is left to be done now. It tells whether
// something is left that may work later.
func (c *Cluster) complete(lost map[id.NodeID]bool) (left bool) {
	for c.ctx.Err() == nil && c.catalog.Leads() {
		s := c.placementState(func(*catalog.QueueRecord) bool { return true }, lost)
		busy := false
		for i := range s.Groups {
			if r, ok := c.View().QueueByUID(s.Groups[i].UID); ok {
				s.Groups[i].Size = c.wanted(r)
			}
			busy = busy || s.Groups[i].Fixed
		}
		moves := placement.Complete(s)
		if len(moves) == 0 {
			return busy
		}
		c.log.Info("queues get members to be complete", "queues", len(moves))
		err := c.move(c.ctx, moves, nil, func(ctx context.Context, m placement.Move, _ func(Progress)) error {
			if !c.catalog.Leads() {
				return nil // another node plans now
			}
			return c.changeOne(ctx, catalog.BeginMemberChange{UID: m.Group, Join: m.Join, Leave: m.Leave}, nil, nil)
		})
		if err != nil {
			c.log.Warn("queues are not complete", "error", err)
			return true
		}
	}
	return true
}

// mending paces the rebuilding of a member: what stops it may come with the log, and stop it
// each time.
type mending struct {
	tries int
	next  time.Time
}

const (
	mendAgain   = 2 * time.Second // after the first attempt, and twice as long after each
	mendLongest = time.Hour
)

func (m *mending) due(now time.Time) bool { return !now.Before(m.next) }

func (m *mending) began(now time.Time) {
	m.next = now.Add(min(mendAgain<<min(m.tries, 12), mendLongest))
	m.tries++
}

// repair has lost members of this node built anew, as long as it runs.
func (c *Cluster) repair() {
	begun := map[id.QueueUID]*mending{}
	for wait := repairTick; ; {
		select {
		case <-time.After(wait):
		case <-c.host.Mends():
		case <-c.ctx.Done():
			return
		}
		wait = repairTick
		v := c.View()
		if !c.host.Current(v) {
			continue
		}
		lost := c.host.LostMembers()
		for _, uid := range lost {
			if r, ok := v.QueueByUID(uid); ok {
				if begun[uid] == nil {
					begun[uid] = &mending{}
				}
				c.repairOne(r, begun[uid])
			}
		}
		if len(lost) == 0 {
			wait = repairRest
		}
	}
}

// repairOne asks for the member to be taken out and to join anew, or gives up a join that
// cannot succeed.
func (c *Cluster) repairOne(r *catalog.QueueRecord, m *mending) {
	var ask catalog.Command
	g := replica.Joins(r, c.cfg.Node)
	switch {
	case g != nil && !g.Cancelled && c.dir.Joined(r.UID) == g.ID:
		ask = &catalog.CancelMemberChange{UID: r.UID, Change: g.ID}
	case r.Change == nil && slices.Contains(r.Members, c.cfg.Node) && len(r.Members) > 1 && m.due(time.Now()):
		ask = &catalog.BeginMemberChange{UID: r.UID, Join: c.cfg.Node, Leave: c.cfg.Node}
	default:
		return
	}
	_, err := c.catalog.Propose(c.ctx, ask)
	if err == nil {
		m.began(time.Now())
	}
	if err != nil && c.ctx.Err() == nil {
		c.log.Warn("a lost member cannot be built anew yet", "queue", r.Name, "vhost", r.VHost, "error", err)
	}
}

// ReconcileStatus tells which changes go on, as this node's view has them.
func (c *Cluster) ReconcileStatus() ReconcileStatus {
	v := c.View()
	s := ReconcileStatus{Leader: c.catalog.Leader()}
	for r := range v.Queues() {
		if len(r.Members) < min(c.wanted(r), v.NodeCount()) {
			s.Short++
		}
		if g := r.Change; g != nil {
			s.Changes = append(s.Changes, MemberChangeStatus{Queue: r.UID, VHost: r.VHost, Name: r.Name, Join: g.Join, Leave: g.Leave})
		}
	}
	return s
}
