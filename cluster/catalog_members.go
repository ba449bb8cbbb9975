package cluster

import (
	"context"
	"slices"
	"time"

	"github.com/quorate/quorate/id"
)

// growTick is the time between two looks at who should be a member of the catalog group.
const growTick = 500 * time.Millisecond

// maxCatalogLag is how many entries a non-voter may lack when it becomes a voter.
const maxCatalogLag = 100

// grow makes registered nodes members of the catalog group, one change at a time, while
// this node leads it: first as non-voters, and up to maxCatalogVoters as voters once
// they have caught up (RE-6). A node counts only while there is a link to it, so that a
// quorum never hangs on one that is not there.
func (g *catalogGroup) grow() {
	for pause(g.c.ctx, growTick) == nil {
		if g.leader() != g.c.cfg.Node {
			continue
		}
		if n, voter := g.nextMember(); n != "" {
			g.add(n, voter)
		}
	}
}

func (g *catalogGroup) nextMember() (n id.NodeID, voter bool) {
	voters, nonvoters, err := g.group.Servers()
	if err != nil {
		return "", false // it no longer leads
	}
	for r := range g.c.View().Nodes() {
		if slices.Contains(voters, r.ID) {
			continue
		}
		if epoch, up := g.c.mux.Connected(r.ID); !up || epoch != r.Epoch {
			continue
		}
		if !slices.Contains(nonvoters, r.ID) {
			return r.ID, false
		}
		if len(voters) < maxCatalogVoters && g.caughtUp(r.ID) {
			return r.ID, true
		}
	}
	return "", false
}

func (g *catalogGroup) caughtUp(n id.NodeID) bool {
	s, err := g.ask(n)
	if err != nil {
		return false
	}
	for _, m := range s.GetGroups() {
		if id.GroupID(m.GetGroup()) == id.CatalogGroup {
			return m.GetFailed() == "" && m.GetAppliedIndex()+maxCatalogLag >= g.group.Stats().CommitIndex
		}
	}
	return false
}

func (g *catalogGroup) add(n id.NodeID, voter bool) {
	ctx, cancel := context.WithTimeout(g.c.ctx, g.c.cfg.HeartbeatTimeout*4)
	defer cancel()
	change := g.group.AddNonvoter
	if voter {
		change = g.group.AddVoter
	}
	if err := change(ctx, n); err != nil {
		g.c.log.Warn("adding a member of the catalog group", "member", string(n), "voter", voter, "error", err)
		return
	}
	g.c.log.Info("catalog group has a new member", "member", string(n), "voter", voter)
}
