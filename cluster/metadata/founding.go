package metadata

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/cluster/gossip"
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

// foundingTick is the interval between checks of the other nodes.
const foundingTick = 100 * time.Millisecond

// found runs until this node's catalog member has state, or a catalog has taken this node: it
// founds no other one then, whatever it has lost.
func (g *Group) found() {
	for !g.Founded() && !g.admission.taken.Load() {
		if err := g.foundingStep(); err != nil {
			g.cfg.Logger.Warn("founding the cluster", "error", err)
		}
		if wait.For(g.cfg.Life, foundingTick) != nil {
			return
		}
	}
}

// foundingStep looks once. A node that has promised to follow a founder asks that one alone until it has
// founded, or is known not to.
func (g *Group) foundingStep() error {
	self := g.cfg.Node
	own := g.admission.Promise()
	if own.Founder != "" && own.Founder != self {
		s, err := g.Ask(own.Founder)
		if err != nil || s.GetFounded() || agrees(s, own) {
			return nil //nolint:nilerr // an unreachable founder may have founded: wait for it
		}
		return g.promiseTo(datadir.Promise{Proposals: own.Proposals})
	}
	seen, founded := g.look()
	if founded || len(seen) < g.cfg.Expect {
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
func (g *Group) follow(own datadir.Promise, founder id.NodeID, s *nodev1.NodeStatusResponse) error {
	p := datadir.Promise{
		Founder: founder, Round: s.GetFoundingRound(), Members: nodeIDs(s.GetFounding()),
		Proposals: own.Proposals,
	}
	if s.GetFounder() == string(founder) && slices.Contains(p.Members, g.cfg.Node) {
		return g.promiseTo(p)
	}
	if own.Founder != "" {
		return g.promiseTo(datadir.Promise{Proposals: own.Proposals}) // it was this node's own; who promised to it is free
	}
	return nil
}

// lead proposes a set, and founds when all of it have promised.
func (g *Group) lead(own datadir.Promise, ids []id.NodeID, seen map[id.NodeID]*nodev1.NodeStatusResponse) error {
	p := datadir.Promise{
		Founder: g.cfg.Node, Round: own.Round, Members: ids[:g.cfg.Expect],
		Proposals: own.Proposals,
	}
	if !slices.Equal(own.Members, p.Members) {
		p.Proposals++
		p.Round = p.Proposals
		// The others' answers count only from the next check on: they must be about this set.
		return g.promiseTo(p)
	}
	for _, m := range p.Members {
		if m != g.cfg.Node && !agrees(seen[m], p) {
			return nil
		}
	}
	if err := g.raft.Bootstrap(p.Members); err != nil {
		return fmt.Errorf("cluster: founding with nodes %q: %w", p.Members, err)
	}
	g.cfg.Logger.Info("cluster founded", "nodes", p.Members)
	// All of them are open, or they could not have promised: there is nothing to wait for.
	ctx, cancel := context.WithTimeout(g.cfg.Life, firstElection)
	defer cancel()
	if err := g.raft.Campaign(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("cluster: first election of the catalog: %w", err)
	}
	return nil
}

// promiseTo writes the promise before anything is done by it: a node that forgets it could found twice.
func (g *Group) promiseTo(p datadir.Promise) error {
	if err := g.cfg.Dir.WritePromise(p); err != nil {
		return err
	}
	g.admission.promise.Store(&p)
	switch {
	case g.admission.taken.Load():
	case p.Founder == "": // nobody has founded with the promise before
		g.admission.part.Store(false)
	default:
		g.admission.takePart() // its founder counts on it from now on
	}
	return nil
}

// others asks the other living nodes one by one, and goes over those that answer.
func (g *Group) others() iter.Seq2[id.NodeID, *nodev1.NodeStatusResponse] {
	return func(yield func(id.NodeID, *nodev1.NodeStatusResponse) bool) {
		for _, n := range gossip.Alive(g.cfg.Gossip()) {
			if n == g.cfg.Node {
				continue
			}
			if s, err := g.Ask(n); err == nil && !yield(n, s) {
				return
			}
		}
	}
}

// look asks the living nodes; those that do not answer are not seen.
func (g *Group) look() (seen map[id.NodeID]*nodev1.NodeStatusResponse, founded bool) {
	seen = map[id.NodeID]*nodev1.NodeStatusResponse{g.cfg.Node: nil}
	for n, s := range g.others() {
		if s.GetFounded() {
			return nil, true
		}
		seen[n] = s
	}
	g.compare(seen)
	return seen, false
}

// compare finds nodes that found the cluster with another number of nodes: they may wait for one another for ever.
// This is logged once, and Ready reports it as long as it lasts.
func (g *Group) compare(seen map[id.NodeID]*nodev1.NodeStatusResponse) {
	var errs []error
	for _, n := range slices.Sorted(maps.Keys(seen)) {
		if theirs := int(seen[n].GetExpect()); theirs != 0 && theirs != g.cfg.Expect {
			errs = append(errs, fmt.Errorf("cluster: node %q founds the cluster with %d nodes, node %q with %d: "+
				"set the same number of nodes to expect on all", g.cfg.Node, g.cfg.Expect, n, theirs))
		}
	}
	if len(errs) == 0 {
		g.unlike.Store(nil)
		return
	}
	err := errors.Join(errs...)
	if g.unlike.Swap(&err) == nil {
		g.cfg.Logger.Error("nodes do not agree on how to found the cluster", "error", err)
	}
}

// Ask asks another node for its status, within 2 s.
func (g *Group) Ask(n id.NodeID) (*nodev1.NodeStatusResponse, error) {
	peer, err := g.cfg.Mux.Client(n)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(g.cfg.Life, catalogAttempt)
	defer cancel()
	return peer.NodeStatus(ctx, &nodev1.NodeStatusRequest{})
}

func agrees(s *nodev1.NodeStatusResponse, p datadir.Promise) bool {
	return s.GetFounder() == string(p.Founder) && s.GetFoundingRound() == p.Round && slices.Equal(nodeIDs(s.GetFounding()), p.Members)
}

// nodeIDs takes names as peers send them.
func nodeIDs(names []string) []id.NodeID {
	ids := make([]id.NodeID, len(names))
	for i, n := range names {
		ids[i] = id.NodeID(n)
	}
	return ids
}
