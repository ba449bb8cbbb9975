package metadata

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/raftfsm"
)

// changeTimeout bounds a change of the group's members.
const changeTimeout = 2 * time.Second

// maxCatalogLag is how many entries a non-voter may lack when it becomes a voter.
const maxCatalogLag = 100

// maxCatalogVoters bounds the voters of the catalog group (RE-6).
const maxCatalogVoters = 5

// catalogChange is one change of the catalog group's members.
type catalogChange struct {
	what   string
	member id.NodeID
	do     func(ctx context.Context, n id.NodeID) error
}

// grow keeps the members of the catalog group in step with the registered nodes, one
// change at a time, while this node leads it: they are added as non-voters, and up to
// maxCatalogVoters get a vote once they have caught up (RE-6). A node that is gone for good
// is taken out, and a voter that is away gives its vote to another.
func (g *Group) grow() {
	away := map[id.NodeID]time.Time{}
	loop := g.LeaderLoop()
	for busy := true; loop.Next(busy) == nil; {
		busy = true
		if !g.Leads() {
			clear(away)
			continue
		}
		at, err := g.raft.Configuration()
		if err != nil {
			continue // it no longer leads
		}
		g.notice(at, away, time.Now())
		due := false
		if at.Committed() { // else a change is under way
			_, due = g.nextChange(at, away, time.Now())
		}
		if due {
			g.changeMembers(away)
		}
		if len(at.Nonvoters) > 0 {
			g.raft.Push() // one that begins has refused raft's calls until then
		}
		busy = due || !at.Committed() || len(away) > 0 || len(at.Voters) < min(g.view().NodeCount(), maxCatalogVoters)
	}
}

// seated reports what is missing, once in this life, before the catalog bears the loss of another
// node: this one's vote, while the catalog has votes to give. Whoever restarts or replaces nodes
// in turn takes the next one when this one is ready (RE-6, RE-9). A running node that loses its vote stays ready,
// because its queues need it.
func (g *Group) seated() error {
	if g.seatedOnce.Load() {
		return nil
	}
	at, err := g.raft.Configuration()
	switch {
	case err != nil:
		return err
	case !at.Committed():
		return errors.New("cluster: catalog group is changing its members: waiting for a majority of its nodes")
	case !slices.Contains(at.Voters, g.cfg.Node) && len(at.Voters) < maxCatalogVoters:
		return fmt.Errorf("cluster: this node has no vote in the catalog group yet: its leader, node %q, gives it one once "+
			"this node has the catalog's log; voters are %q", g.Leader(), at.Voters)
	}
	g.seatedOnce.Store(true)
	return nil
}

// changeMembers makes the change that is due by a view that lacks nothing that was committed:
// that of a new leader may not know yet who is leaving.
func (g *Group) changeMembers(away map[id.NodeID]time.Time) {
	ctx, cancel := context.WithTimeout(g.cfg.Life, changeTimeout)
	defer cancel()
	if err := g.raft.Barrier(ctx); err != nil {
		return // it no longer leads
	}
	at, err := g.raft.Configuration()
	if err != nil || !at.Committed() {
		return
	}
	if c, due := g.nextChange(at, away, time.Now()); due {
		g.change(c)
	}
}

// membersChange makes the catalog's leader check its own members and the queues' members at once.
func (g *Group) membersChange() { g.news.notify() }

// notice notes since when members are away.
func (g *Group) notice(at raftfsm.Configuration, away map[id.NodeID]time.Time, now time.Time) {
	for _, n := range slices.Concat(at.Voters, at.Nonvoters) {
		_, noted := away[n]
		switch {
		case g.connected(n):
			delete(away, n)
		case !noted:
			away[n] = now
		}
	}
}

func (g *Group) connected(n id.NodeID) bool {
	_, up := g.cfg.Mux.Connected(n)
	return up || n == g.cfg.Node
}

// nextChange chooses the change that is due. A node is added, and gets a vote, only while
// there is a connection to it, so that a quorum never hangs on one that is not there; a voter goes
// only if those that stay are a majority.
func (g *Group) nextChange(at raftfsm.Configuration, away map[id.NodeID]time.Time, now time.Time) (catalogChange, bool) {
	gone := func(n id.NodeID) bool {
		since, is := away[n]
		return is && now.Sub(since) >= g.cfg.AwayAfter
	}
	if c, due := g.nextOut(at); due {
		return c, true
	}
	for _, n := range slices.Concat(at.Voters, at.Nonvoters) {
		// One that has just founded the cluster may not be registered yet.
		if _, registered := g.view().Node(n); !registered && gone(n) && g.spares(at, n) {
			return catalogChange{"removed", n, func(ctx context.Context, n id.NodeID) error { return g.raft.RemoveServer(ctx, n, at.Index) }}, true
		}
	}
	for r := range g.view().Nodes() {
		if slices.Contains(at.Voters, r.ID) || r.Vacant || g.view().Leaves(r.ID) {
			continue
		}
		if epoch, up := g.cfg.Mux.Connected(r.ID); !up || epoch != r.Epoch {
			continue
		}
		if !slices.Contains(at.Nonvoters, r.ID) {
			return catalogChange{"added without a vote", r.ID, g.letIn}, true
		}
		if !g.caughtUp(r.ID) {
			continue
		}
		if len(at.Voters) < maxCatalogVoters {
			return catalogChange{"given a vote", r.ID, g.raft.AddVoter}, true
		}
		// The one whose vote is free now gets it at the next look.
		if i := slices.IndexFunc(at.Voters, gone); i >= 0 && g.spares(at, at.Voters[i]) {
			return catalogChange{"without its vote", at.Voters[i], func(ctx context.Context, n id.NodeID) error {
				return g.raft.DemoteVoter(ctx, n, at.Index)
			}}, true
		}
	}
	return catalogChange{}, false
}

// letIn adds a node without a vote. It gets the catalog, and not its history: until it has what it gets, it neither serves
// clients nor votes.
func (g *Group) letIn(ctx context.Context, n id.NodeID) error {
	if g.raft.Stats().Long() {
		if err := g.raft.Snapshot(); err != nil {
			g.cfg.Logger.Warn("no snapshot of the catalog for a node that joins: it gets the whole log", "member", string(n), "error", err)
		}
	}
	return g.raft.AddNonvoter(ctx, n)
}

// nextOut chooses the change that is due about members that are to be taken out because what
// they had is lost: no empty one begins under their ids before the catalog has it that they are
// (RE-9).
func (g *Group) nextOut(at raftfsm.Configuration) (catalogChange, bool) {
	for n, since := range g.view().Leaving() {
		switch is := slices.Contains(at.Voters, n) || slices.Contains(at.Nonvoters, n); {
		case !is:
			return catalogChange{"known to be out", n, func(ctx context.Context, n id.NodeID) error { return g.recordOut(ctx, n, since) }}, true
		case n != g.cfg.Node && g.spares(at, n):
			return catalogChange{"taken out, what it had is lost", n, func(ctx context.Context, n id.NodeID) error {
				return g.raft.RemoveServer(ctx, n, at.Index)
			}}, true
		}
	}
	return catalogChange{}, false
}

// recordOut records in the catalog that the group's configuration is without a node, once that is
// committed. It stays so: whoever adds a node has applied what says that it is leaving.
func (g *Group) recordOut(ctx context.Context, n id.NodeID, since uint64) error {
	at, err := g.raft.Configuration()
	if err != nil || !at.Committed() || slices.Contains(at.Voters, n) || slices.Contains(at.Nonvoters, n) {
		return err
	}
	r, _, err := g.proposeHere(ctx, catalog.AppendCommand(nil, &catalog.NodeOut{ID: n, Since: since}))
	if err == nil && r.Err != nil {
		err = r.Err
	}
	return err
}

// spares reports whether the voters besides one have a majority that is there.
func (g *Group) spares(at raftfsm.Configuration, n id.NodeID) bool {
	voters, up := 0, 0
	for _, v := range at.Voters {
		if v == n {
			continue
		}
		if voters++; g.connected(v) {
			up++
		}
	}
	return up >= voters/2+1
}

// caughtUp asks the member itself: the leader knows only what it has sent.
func (g *Group) caughtUp(n id.NodeID) bool {
	s, err := g.Ask(n)
	return err == nil && hasLog(s, g.raft.Stats().CommitIndex)
}

// hasLog reports whether a node's member of the catalog group has the log up to maxCatalogLag entries before an index. One
// that has nothing has not begun to take part, or has just begun: however short the log is, it has to answer
// first. With a vote, and without a part, it would keep a group of two from committing anything, and could never begin.
func hasLog(s *nodev1.NodeStatusResponse, commit uint64) bool {
	for _, m := range s.GetGroups() {
		if id.GroupID(m.GetGroup()) == id.CatalogGroup {
			return m.GetFailed() == "" && m.GetAppliedIndex() > 0 && m.GetAppliedIndex()+maxCatalogLag >= commit
		}
	}
	return false
}

// change only logs what fails: the next round finds the same change again.
func (g *Group) change(c catalogChange) {
	ctx, cancel := context.WithTimeout(g.cfg.Life, changeTimeout)
	defer cancel()
	if err := c.do(ctx, c.member); err != nil {
		g.cfg.Logger.Warn("changing the members of the catalog group", "member", string(c.member), "change", c.what, "error", err)
		return
	}
	g.cfg.Logger.Info("the catalog group has changed", "member", string(c.member), "change", c.what)
}
