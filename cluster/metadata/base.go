package metadata

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/raftfsm"
)

// BaseAnswer is what a node says that was asked for the base of a member.
type BaseAnswer struct {
	raftfsm.Base
	// NotLeader reports that the node gives none, because it does not lead the group.
	NotLeader bool
	Leader    id.NodeID // who does, as that node knows it; "": it does not, or leads itself
	// Older reports that the node is of a build that gives no bases.
	Older bool
}

// AskBase asks a node for the base of this node's member of a group, which is to begin with nothing
// (docs/adr/0006-changes-of-members.md). An error is why there is no base yet; the caller may ask again.
func AskBase(ctx context.Context, peer nodev1.NodeClient, g id.GroupID) (BaseAnswer, error) {
	r, err := peer.JoinBase(ctx, &nodev1.JoinBaseRequest{Group: uint64(g)})
	if status.Code(err) == codes.Unimplemented {
		return BaseAnswer{Older: true}, nil
	}
	if err != nil {
		return BaseAnswer{}, err
	}
	return BaseAnswer{
		Base:      raftfsm.Base{Term: r.GetTerm(), Index: r.GetIndex()},
		NotLeader: r.GetNotLeader(), Leader: id.NodeID(r.GetLeader()),
	}, nil
}

// base asks the catalog's leader, or whoever may know it, for the base of this node's member. It is zero if
// that is of an older build, whose members begin without.
func (g *Group) base(ctx context.Context, attempt int) (raftfsm.Base, error) {
	to := g.target(attempt)
	if to == "" || to == g.cfg.Node {
		return raftfsm.Base{}, errors.New("no node that may lead the catalog is connected")
	}
	a, err := g.baseAt(ctx, to)
	if err == nil && a.NotLeader && a.Leader != "" && a.Leader != to && a.Leader != g.cfg.Node {
		to = a.Leader
		a, err = g.baseAt(ctx, to)
	}
	switch {
	case err != nil:
		return raftfsm.Base{}, fmt.Errorf("asking node %q: %w", to, err)
	case a.NotLeader:
		return raftfsm.Base{}, fmt.Errorf("node %q does not lead the catalog", to)
	}
	return a.Base, nil
}

// baseAt asks one node. One of an older build is asked whether it leads instead.
func (g *Group) baseAt(ctx context.Context, to id.NodeID) (BaseAnswer, error) {
	peer, err := g.cfg.Mux.Client(to)
	if err != nil {
		return BaseAnswer{}, err
	}
	a, err := AskBase(ctx, peer, id.CatalogGroup)
	if err != nil || !a.Older {
		return a, err
	}
	r, err := peer.CatalogIndex(ctx, &nodev1.CatalogIndexRequest{})
	return BaseAnswer{NotLeader: r.GetNotLeader(), Leader: id.NodeID(r.GetLeader())}, err
}

// beginWith lets the empty member begin: from the catalog's index at on, a former member is out of the group.
func (g *Group) beginWith(ctx context.Context, at uint64, base raftfsm.Base) error {
	if err := g.cfg.Dir.BeginCatalog(at, base); err != nil {
		return err
	}
	if err := g.raft.Begin(ctx, base); err != nil {
		return err
	}
	g.admission.began.Store(at)
	g.cfg.Logger.Info("this node's member of the catalog group begins with nothing: a former one, if there was one, is out of it",
		"index", at, "base_term", base.Term, "base_index", base.Index)
	g.admission.takePart()
	return nil
}

// leaves asks the catalog whether a former member of this node is out of its group, and returns from which index on.
func (g *Group) leaves(ctx context.Context) (at uint64, out bool, err error) {
	cmd := &catalog.LeaveCatalog{ID: g.cfg.Node, Store: g.cfg.Dir.Store().Name, Since: g.cfg.Dir.Store().Began}
	r, _, err := g.propose(ctx, catalog.AppendCommand(nil, cmd))
	switch {
	case err != nil:
		return 0, false, nil //nolint:nilerr // it is asked again
	case r.Err != nil:
		return 0, false, fmt.Errorf("cluster: the catalog does not let this node's member begin: %w", r.Err)
	}
	return r.Index, r.Deleted, nil
}
