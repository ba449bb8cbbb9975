package cluster

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Founding decides which nodes hold the first configuration of the catalog group, and
// does so once, although every node sees others come and go.
//
// One node writes the configuration: the founder. It is the smallest id among Expect
// nodes that it can ask. It writes down and publishes the set it proposes, and
// bootstraps only after every node of the set has written down, and says, that it has
// promised itself to this founder and set. A node promises itself to one founder at a
// time, and is free again only when that founder itself says that it has moved on
// without founding. So two sets that share a node cannot both be founded. The
// founder numbers its proposals, so that it never mistakes an old promise for a new one
// of the same set. The other nodes of the set bootstrap nothing: the founder's log
// reaches them by Raft.
//
// A node that sees one with a catalog founds nothing; it registers, and the catalog's
// leader makes it a member.

// foundingTick is the time between two looks at the other nodes.
const foundingTick = 100 * time.Millisecond

// found runs until this node's catalog member has state, or a catalog has taken this node: it
// founds no other one then, whatever it has lost.
func (g *catalogGroup) found() {
	for !g.founded() && !g.taken.Load() {
		if err := g.foundingStep(); err != nil {
			g.c.log.Warn("founding the cluster", "error", err)
		}
		if wait.For(g.c.ctx, foundingTick) != nil {
			return
		}
	}
}

func (g *catalogGroup) foundingStep() error {
	self := g.c.cfg.Node
	own := *g.promise.Load()
	if own.founder != "" && own.founder != self {
		s, err := g.ask(own.founder)
		if err != nil || s.GetFounded() || agrees(s, own) {
			return nil //nolint:nilerr // an unreachable founder may have founded: wait for it
		}
		return g.promiseTo(promise{proposals: own.proposals})
	}
	seen, founded := g.look()
	if founded || len(seen) < g.c.cfg.Expect {
		return nil
	}
	ids := make([]id.NodeID, 0, len(seen))
	for n := range seen {
		ids = append(ids, n)
	}
	slices.Sort(ids)
	if ids[0] != self {
		return g.follow(own, ids[0], seen[ids[0]])
	}
	return g.lead(own, ids, seen)
}

// follow promises this node to the founder if the founder has chosen it.
func (g *catalogGroup) follow(own promise, founder id.NodeID, s *nodev1.NodeStatusResponse) error {
	p := promise{
		founder: founder, round: s.GetFoundingRound(), members: nodeIDs(s.GetFounding()),
		proposals: own.proposals,
	}
	if s.GetFounder() == string(founder) && slices.Contains(p.members, g.c.cfg.Node) {
		return g.promiseTo(p)
	}
	if own.founder != "" {
		return g.promiseTo(promise{proposals: own.proposals}) // it was this node's own; who promised to it is free
	}
	return nil
}

// lead proposes a set, and founds when all of it have promised.
func (g *catalogGroup) lead(own promise, ids []id.NodeID, seen map[id.NodeID]*nodev1.NodeStatusResponse) error {
	p := promise{
		founder: g.c.cfg.Node, round: own.round, members: ids[:g.c.cfg.Expect],
		proposals: own.proposals,
	}
	if !slices.Equal(own.members, p.members) {
		p.proposals++
		p.round = p.proposals
		// What others say counts only from the next look on: it must be said of this set.
		return g.promiseTo(p)
	}
	for _, m := range p.members {
		if m != g.c.cfg.Node && !agrees(seen[m], p) {
			return nil
		}
	}
	if err := g.group.Bootstrap(p.members); err != nil {
		return fmt.Errorf("cluster: founding with nodes %q: %w", p.members, err)
	}
	g.c.log.Info("cluster founded", "nodes", p.members)
	// All of them are open, or they could not have promised: there is nothing to wait for.
	ctx, cancel := context.WithTimeout(g.c.ctx, firstElection)
	defer cancel()
	if err := g.group.Campaign(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("cluster: first election of the catalog: %w", err)
	}
	return nil
}

func (g *catalogGroup) promiseTo(p promise) error {
	if err := g.c.dir.writePromise(p); err != nil {
		return err
	}
	g.promise.Store(&p)
	switch {
	case g.taken.Load():
	case p.founder == "": // nobody has founded with the promise before
		g.part.Store(false)
	default:
		g.takePart() // its founder counts on it from now on
	}
	return nil
}

// others asks the other living nodes one by one, and goes over those that answer.
func (g *catalogGroup) others() iter.Seq2[id.NodeID, *nodev1.NodeStatusResponse] {
	return func(yield func(id.NodeID, *nodev1.NodeStatusResponse) bool) {
		for _, n := range g.c.alive() {
			if n == g.c.cfg.Node {
				continue
			}
			if s, err := g.ask(n); err == nil && !yield(n, s) {
				return
			}
		}
	}
}

// look asks the living nodes; those that do not answer are not seen.
func (g *catalogGroup) look() (seen map[id.NodeID]*nodev1.NodeStatusResponse, founded bool) {
	seen = map[id.NodeID]*nodev1.NodeStatusResponse{g.c.cfg.Node: nil}
	for n, s := range g.others() {
		if s.GetFounded() {
			return nil, true
		}
		seen[n] = s
	}
	g.compare(seen)
	return seen, false
}

// compare notes nodes that found with another number of nodes: they may wait for ever for
// one another. It is said once, and as long as it lasts by ready.
func (g *catalogGroup) compare(seen map[id.NodeID]*nodev1.NodeStatusResponse) {
	var errs []error
	for _, n := range slices.Sorted(maps.Keys(seen)) {
		if theirs := int(seen[n].GetExpect()); theirs != 0 && theirs != g.c.cfg.Expect {
			errs = append(errs, fmt.Errorf("cluster: node %q founds the cluster with %d nodes, node %q with %d: "+
				"set the same number of nodes to expect on all", g.c.cfg.Node, g.c.cfg.Expect, n, theirs))
		}
	}
	if len(errs) == 0 {
		g.unlike.Store(nil)
		return
	}
	err := errors.Join(errs...)
	if g.unlike.Swap(&err) == nil {
		g.c.log.Error("nodes do not agree on how to found the cluster", "error", err)
	}
}

func (g *catalogGroup) ask(n id.NodeID) (*nodev1.NodeStatusResponse, error) {
	peer, err := g.c.mux.Client(n)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(g.c.ctx, catalogAttempt)
	defer cancel()
	return peer.NodeStatus(ctx, &nodev1.NodeStatusRequest{})
}

func agrees(s *nodev1.NodeStatusResponse, p promise) bool {
	return s.GetFounder() == string(p.founder) && s.GetFoundingRound() == p.round && slices.Equal(nodeIDs(s.GetFounding()), p.members)
}

func nodeIDs(names []string) []id.NodeID {
	ids := make([]id.NodeID, len(names))
	for i, n := range names {
		ids[i] = id.NodeID(n)
	}
	return ids
}

func nodeNames(ids []id.NodeID) []string {
	names := make([]string, len(ids))
	for i, n := range ids {
		names[i] = string(n)
	}
	return names
}
