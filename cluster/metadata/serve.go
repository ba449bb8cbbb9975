package metadata

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/catalog"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// ProposeFor proposes for a peer if this node leads the catalog group.
func (g *Group) ProposeFor(ctx context.Context, r *nodev1.ProposeCatalogRequest) (*nodev1.ProposeCatalogResponse, error) {
	reply, leader, err := g.proposeFor(ctx, r.GetCommand())
	if errors.Is(err, errNotProposed) {
		return &nodev1.ProposeCatalogResponse{NotLeader: true, Leader: string(leader)}, nil
	}
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return &nodev1.ProposeCatalogResponse{Index: reply.Index, Reply: catalog.AppendReply(nil, reply)}, nil
}

// AwaitFor waits for a peer until this node's view is as far as it asks.
func (g *Group) AwaitFor(ctx context.Context, r *nodev1.AwaitCatalogRequest) (*nodev1.AwaitCatalogResponse, error) {
	if err := g.cfg.Views.Await(ctx, r.GetIndex()); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	return &nodev1.AwaitCatalogResponse{}, nil
}

// IndexFor reports the catalog's index to a peer if this node leads the catalog.
func (g *Group) IndexFor(ctx context.Context, _ *nodev1.CatalogIndexRequest) (*nodev1.CatalogIndexResponse, error) {
	index, leader, err := g.readIndexHere(ctx)
	if err != nil {
		return &nodev1.CatalogIndexResponse{NotLeader: true, Leader: string(leader)}, nil //nolint:nilerr // it is in the response
	}
	return &nodev1.CatalogIndexResponse{Index: index}, nil
}

// FillFounding fills in the progress of the founding.
func (g *Group) FillFounding(out *nodev1.NodeStatusResponse) {
	// Founded is read first: a founder never moves on after it has founded. A node that a catalog has once taken
	// belongs to a founded cluster, whatever it has lost.
	out.Founded, out.Expect = g.Founded() || g.admission.taken.Load(), uint32(g.cfg.Expect)
	p := g.admission.Promise()
	out.Founder, out.FoundingRound = string(p.Founder), p.Round
	for _, n := range p.Members {
		out.Founding = append(out.Founding, string(n))
	}
}
