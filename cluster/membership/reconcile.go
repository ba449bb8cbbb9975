package membership

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/cluster/placement"
	"github.com/quorate/quorate/id"
)

const (
	// repairTick is the interval between checks of this node's lost members. Without lost members it is repairRest,
	// in case one has gone unnoticed.
	repairTick = 500 * time.Millisecond
	repairRest = 30 * time.Second
	// unsteadyDelays is how many delays queues wait at most while nodes come and go all the time.
	unsteadyDelays = 6
)

// pace decides when to check all queues.
type pace struct {
	interval, delay time.Duration
	longest         time.Duration                // to wait for nodes that come and go all the time; 0: unlimited
	nodes           string                       // as they were last seen
	policies        map[string]catalog.PolicySet // same, by vhost
	changed         time.Time                    // since when nodes are so
	asked           time.Time                    // since when something has changed that was not looked at; zero: nothing has
	last            time.Time                    // when queues were looked at
	again           bool                         // something was left
}

// due reports whether to check all queues now. short means that a queue has fewer members than it should have. Only
// nodes have to be steady: where clients change policies or queues all the time, nothing else ever is.
func (p *pace) due(now time.Time, nodes string, policies map[string]catalog.PolicySet, short bool) bool {
	if p.asked.IsZero() && (short || nodes != p.nodes || !maps.Equal(policies, p.policies)) {
		p.asked = now
	}
	if nodes != p.nodes {
		p.nodes, p.changed = nodes, now
	}
	p.policies = policies
	waited := now.Sub(p.asked)
	steady := now.Sub(p.changed) >= p.delay || p.longest > 0 && waited >= p.longest
	asked := !p.asked.IsZero() && waited >= p.delay && steady
	repeat := p.again && now.Sub(p.last) >= p.delay
	if !asked && !repeat && now.Sub(p.last) < p.interval {
		return false
	}
	p.last, p.asked, p.again = now, time.Time{}, false
	return true
}

// KeepSizes brings queues to their size, and spreads their leaders, while this node leads
// the catalog.
func (rc *Reconciler) KeepSizes() {
	cfg := rc.cfg.Settings
	fresh := func() (members, leaders pace, unseen map[id.NodeID]time.Time, seen *catalog.View) {
		now := time.Now()
		return pace{interval: cfg.Interval, delay: cfg.Delay, longest: unsteadyDelays * cfg.Delay, last: now},
			pace{interval: cfg.Interval, delay: cfg.LeadersDelay, last: now}, map[id.NodeID]time.Time{}, rc.cfg.View()
	}
	p, leaders, unseen, seen := fresh()
	logged := map[id.NodeID]string{} // why a node that waits was not let in
	loop := rc.cfg.Catalog.LeaderLoop()
	for busy := true; loop.Next(busy) == nil; {
		busy = true
		if !rc.cfg.Catalog.Leads() {
			p, leaders, unseen, seen = fresh()
			continue
		}
		now, before := time.Now(), seen
		seen = rc.cfg.View()
		nodes, lost := rc.look(now, unseen)
		if !cfg.KeepLeaders && leaders.due(now, nodes, nil, false) {
			rc.SpreadLeaders()
		}
		if p.due(now, nodes, policySets(seen), rc.short(before, seen)) {
			p.again = rc.complete(lost)
		}
		waiting := rc.replaceLost(now, logged)
		busy = waiting || p.again || !p.asked.IsZero() || !leaders.asked.IsZero() || len(unseen) > 0
	}
}

// short reports whether a queue that has changed between two views has too few members now, for example because a
// member that was to join could not.
func (rc *Reconciler) short(before, now *catalog.View) bool {
	nodes := 0
	for range now.Nodes() {
		nodes++
	}
	for _, r := range now.ChangedQueues(before) {
		if r != nil && r.Durable && r.Change == nil && len(r.Members) < min(rc.wanted(r), nodes) {
			return true
		}
	}
	return false
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

// look notes which nodes are seen, and returns which are lost for good.
func (rc *Reconciler) look(now time.Time, unseen map[id.NodeID]time.Time) (nodes string, lost map[id.NodeID]bool) {
	lost = map[id.NodeID]bool{}
	var b strings.Builder
	for n := range rc.cfg.View().Nodes() {
		_, up := rc.cfg.Transport.Connected(n.ID)
		since, away := unseen[n.ID]
		switch {
		case up || n.ID == rc.cfg.Node:
			delete(unseen, n.ID)
		case !away:
			unseen[n.ID] = now
		case rc.cfg.Settings.AutoRemove > 0 && now.Sub(since) >= rc.cfg.Settings.AutoRemove:
			lost[n.ID] = true
		}
		_, away = unseen[n.ID]
		fmt.Fprintf(&b, "%q %v %v;", n.ID, away, lost[n.ID])
	}
	return b.String(), lost
}

// wanted returns how many members a queue should have.
func (rc *Reconciler) wanted(r *catalog.QueueRecord) int {
	if r.Size > 0 {
		return r.Size
	}
	return rc.cfg.Policies.GroupSize(rc.cfg.View(), r)
}

// lacking reports whether a queue has fewer members than it should have, and than there are nodes that are connected: one
// of these drains or does not answer just now.
func (rc *Reconciler) lacking(s *placement.State) bool {
	connected := 0
	for i := range s.Nodes {
		if _, up := rc.cfg.Transport.Connected(s.Nodes[i].Node); up || s.Nodes[i].Node == rc.cfg.Node {
			connected++
		}
	}
	return slices.ContainsFunc(s.Groups, func(g placement.Group) bool { return !g.Fixed && len(g.Members) < min(g.Size, connected) })
}

// complete carries plans out until nothing is left to be done now. It reports whether
// something is left that may work later.
func (rc *Reconciler) complete(lost map[id.NodeID]bool) (left bool) {
	for rc.cfg.Life.Err() == nil && rc.cfg.Catalog.Leads() {
		s := rc.cfg.Placer.state(func(*catalog.QueueRecord) bool { return true }, lost)
		busy := false
		for i := range s.Groups {
			if r, ok := rc.cfg.View().QueueByUID(s.Groups[i].UID); ok {
				s.Groups[i].Size = rc.wanted(r)
			}
			busy = busy || s.Groups[i].Fixed
		}
		moves := placement.Complete(s)
		if len(moves) == 0 {
			return busy || rc.lacking(&s)
		}
		rc.cfg.Logger.Info("queues get members to be complete", "queues", len(moves))
		err := rc.cfg.Operator.move(rc.cfg.Life, moves, nil, func(ctx context.Context, m placement.Move, _ func(operation.Progress)) error {
			if !rc.cfg.Catalog.Leads() {
				return nil // another node plans now
			}
			return rc.cfg.Operator.changeOne(ctx, catalog.BeginMemberChange{UID: m.Group, Join: m.Join, Leave: m.Leave}, nil, nil)
		})
		if err != nil {
			rc.cfg.Logger.Warn("queues are not complete", "error", err)
			return true
		}
	}
	return true
}
