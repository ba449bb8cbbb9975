package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/peer"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
	"github.com/quorate/quorate/raftfsm"
)

// calls answers peers' calls other than the streams. The parts of package peer answer the calls that have the names of
// their methods.
type calls struct {
	unanswered
	*peer.Clients
	*peer.Operations
	*peer.Events
	*peer.Logs

	c *Cluster
}

// unanswered refuses all calls. It is embedded one level deeper than the parts, so that their methods hide its.
type unanswered struct{ nodev1.UnimplementedNodeServer }

func (c *Cluster) calls() calls {
	return calls{Clients: c.everywhere, Operations: c.jobs, Events: c.watched, Logs: c.logs, c: c}
}

// ProposeCatalog proposes for a peer if this node leads the catalog group.
func (s calls) ProposeCatalog(ctx context.Context, r *nodev1.ProposeCatalogRequest) (*nodev1.ProposeCatalogResponse, error) {
	return s.c.catalog.ProposeFor(ctx, r)
}

// AwaitCatalog waits for this node's view.
func (s calls) AwaitCatalog(ctx context.Context, r *nodev1.AwaitCatalogRequest) (*nodev1.AwaitCatalogResponse, error) {
	return s.c.catalog.AwaitFor(ctx, r)
}

// CatalogIndex reports the catalog's index to a peer if this node leads it.
func (s calls) CatalogIndex(ctx context.Context, r *nodev1.CatalogIndexRequest) (*nodev1.CatalogIndexResponse, error) {
	return s.c.catalog.IndexFor(ctx, r)
}

// QueueStatus reads a queue's figures if this node leads it.
func (s calls) QueueStatus(ctx context.Context, r *nodev1.QueueStatusRequest) (*nodev1.QueueStatusResponse, error) {
	q := s.c.host.Member(id.QueueUID(r.GetQueue()))
	if q == nil && r.GetKept() {
		if out, o := s.c.host.Kept(id.QueueUID(r.GetQueue())); out != nil {
			return withOverview(out, o)
		}
	}
	if q == nil {
		s.c.host.Wake(id.QueueUID(r.GetQueue()))
		return nil, status.Error(codes.NotFound, s.c.host.NotHosted(id.QueueUID(r.GetQueue())).Error())
	}
	out := &nodev1.QueueStatusResponse{Group: q.GroupStatus()}
	out.Leader, out.Joined = out.GetGroup().GetLeader(), q.Joined()
	if voters, err := q.Group().Members(); err == nil {
		out.Voters = nodeNames(voters)
	}
	out.Change = s.c.changes.Wire(q.UID())
	if r.GetDigest() {
		if state, index, rest := q.AtRest(); rest {
			sum := sha256.Sum256(state)
			out.Group.StateDigest, out.Group.AppliedIndex = sum[:], index
		}
	}
	if r.GetMemberOnly() {
		return out, nil
	}
	o, err := q.Overview(ctx)
	if err != nil {
		return out, nil //nolint:nilerr // it does not lead: the answer says who does
	}
	if l := q.Led(); l != nil {
		d := s.c.forwarders.Figures(l)
		out.BacklogTrouble, out.Waiting, out.Retries, out.Lost = d.BacklogTrouble, d.Waiting, d.Retries, d.Lost
	}
	if !r.GetDigest() {
		out.Group = q.GroupStatus() // behind the barrier: Leaders.Export relies on the index
	}
	return withOverview(out, &o)
}

// withOverview adds figures, if there are any.
func withOverview(out *nodev1.QueueStatusResponse, o *quorumq.Overview) (*nodev1.QueueStatusResponse, error) {
	if o == nil {
		return out, nil
	}
	var err error
	if out.Overview, err = json.Marshal(o); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	out.HasOverview = true
	return out, nil
}

// NodeStatus reports what this node hosts and the progress of the founding.
func (s calls) NodeStatus(ctx context.Context, r *nodev1.NodeStatusRequest) (*nodev1.NodeStatusResponse, error) {
	c := s.c
	out := &nodev1.NodeStatusResponse{
		Node: string(c.cfg.Node), Epoch: uint64(c.epoch), Version: c.cfg.Version, Draining: c.unloader.Draining(),
		ReadsVersion: uint32(catalog.NewestVersion), ManualFinalize: c.cfg.ManualFinalise,
	}
	v := c.View()
	out.FinalizedVersion = uint32(v.Version())
	if from, ok := transport.CallerOf(ctx); ok {
		if n, known := v.Node(from.Node); known {
			out.KnownEpoch = uint64(n.Epoch)
		}
	}
	c.catalog.FillFounding(out)
	for uid, err := range c.host.Losses() {
		out.Lost = append(out.Lost, &nodev1.LostMember{Queue: uint64(uid), Reason: err.Error()})
	}
	at := c.StartProgress()
	out.Start = &nodev1.StartProgress{Phase: string(at.Phase), Done: at.Done, Total: at.Total, Unit: at.Unit}
	out.Disk, out.Counters = c.disks.Of(c.cfg.Node).Wire(), c.counters()
	if r.GetBrief() {
		f := c.vitals.Figures()
		out.Vitals = f.Wire()
		return out, nil
	}
	add := func(g *nodev1.GroupStatus, snapshot func() []byte) {
		if r.GetDigests() {
			sum := sha256.Sum256(snapshot())
			g.StateDigest = sum[:]
		}
		out.Groups = append(out.Groups, g)
	}
	g := c.catalog.Raft()
	add(replica.GroupStatus(id.CatalogGroup, g.Stats(), g.Failed()), func() []byte { return c.View().AppendSnapshot(nil) })
	for _, q := range c.host.Members() {
		add(q.GroupStatus(), q.Snapshot)
	}
	return out, nil
}

// TellDisk records the state of a peer's disk.
func (s calls) TellDisk(ctx context.Context, r *nodev1.TellDiskRequest) (*nodev1.TellDiskResponse, error) {
	if from, ok := transport.CallerOf(ctx); ok {
		s.c.disks.Hear(from.Node, from.Epoch, r)
	}
	return &nodev1.TellDiskResponse{}, nil
}

// TransferLeadership moves the leadership of a group that this node leads.
func (s calls) TransferLeadership(ctx context.Context, r *nodev1.TransferLeadershipRequest) (*nodev1.TransferLeadershipResponse, error) {
	transfer := s.c.catalog.Raft().TransferLeadership
	if g := id.GroupID(r.GetGroup()); g != id.CatalogGroup {
		q := s.c.host.Member(id.QueueUID(g))
		if q == nil {
			return nil, status.Error(codes.NotFound, s.c.host.NotHosted(id.QueueUID(g)).Error())
		}
		transfer = q.Group().TransferLeadership
	}
	if err := transfer(ctx, id.NodeID(r.GetTo())); err != nil {
		code := codes.Internal
		if errors.As(err, new(*raftfsm.NotLeaderError)) {
			code = codes.FailedPrecondition
		}
		return nil, status.Error(code, err.Error())
	}
	return &nodev1.TransferLeadershipResponse{}, nil
}

// JoinBase reports the base of a group that this node leads, for a member of the caller that is to begin with
// nothing.
func (s calls) JoinBase(ctx context.Context, r *nodev1.JoinBaseRequest) (*nodev1.JoinBaseResponse, error) {
	base := s.c.catalog.Raft().Base // the caller knows by LeaveCatalog that the group has been without it
	if g := id.GroupID(r.GetGroup()); g != id.CatalogGroup {
		q, from := s.c.host.Member(id.QueueUID(g)), id.NodeID("")
		if q == nil {
			s.c.host.Wake(id.QueueUID(g))
			return nil, status.Error(codes.NotFound, s.c.host.NotHosted(id.QueueUID(g)).Error())
		}
		if p, ok := transport.CallerOf(ctx); ok {
			from = p.Node
		}
		base = func(ctx context.Context) (raftfsm.Base, error) { return q.Group().BaseFor(ctx, from) }
	}
	b, err := base(ctx)
	var not *raftfsm.NotLeaderError
	switch {
	case errors.As(err, &not):
		return &nodev1.JoinBaseResponse{NotLeader: true, Leader: string(not.Leader)}, nil
	case err != nil:
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &nodev1.JoinBaseResponse{Term: b.Term, Index: b.Index}, nil
}

// nodeNames is for frames, which have names as text.
func nodeNames(ids []id.NodeID) []string {
	names := make([]string, len(ids))
	for i, n := range ids {
		names[i] = string(n)
	}
	return names
}
