package cluster

import (
	"context"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/cluster/peer"
	"github.com/quorate/quorate/cluster/vitals"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Drain starts the drain of this node for a peer.
func (s calls) Drain(ctx context.Context, r *nodev1.DrainRequest) (*nodev1.DrainResponse, error) {
	op, err := s.c.unloader.StartDrain(ctx, "", time.Duration(r.GetTimeoutMs())*time.Millisecond)
	if err != nil {
		return nil, peer.WireError(err)
	}
	return &nodev1.DrainResponse{Operation: peer.ToWire(op)}, nil
}

// Undrain ends the drain of this node for a peer.
func (s calls) Undrain(ctx context.Context, _ *nodev1.UndrainRequest) (*nodev1.UndrainResponse, error) {
	if err := s.c.unloader.Undrain(ctx, ""); err != nil {
		return nil, peer.WireError(err)
	}
	return &nodev1.UndrainResponse{}, nil
}

// NodeDetails are what a node reports about itself.
type NodeDetails struct {
	Draining bool
	Start    StartProgress
	Reads    catalog.Version   // newest that its build reads
	Counters map[string]uint64 // of the node as gateway since its start (ST-2)
	Vitals   *vitals.Figures   // nil: the build of the node is older and sends none
	Lost     int               // members of queues that have lost what they had stored and wait to be rebuilt
}

// LostMembers asks all nodes of the catalog which of their members have lost what they had stored and wait to be
// rebuilt, and returns their nodes by queue. Those of nodes that do not answer are left out.
func (c *Cluster) LostMembers(ctx context.Context) map[id.QueueUID][]id.NodeID {
	ctx, cancel := context.WithTimeout(ctx, peer.Timeout)
	defer cancel()
	out := map[id.QueueUID][]id.NodeID{}
	for _, uid := range c.host.LostMembers() {
		out[uid] = append(out[uid], c.cfg.Node)
	}
	// No error is possible: none of the answers is refused.
	_ = c.peers.Ask(ctx, func(ctx context.Context, n id.NodeID, node nodev1.NodeClient) (func() error, error) {
		r, err := node.NodeStatus(ctx, &nodev1.NodeStatusRequest{Brief: true})
		return func() error {
			for _, l := range r.GetLost() {
				uid := id.QueueUID(l.GetQueue())
				out[uid] = append(out[uid], n)
			}
			return nil
		}, err
	}, func(id.NodeID) {})
	return out
}

// NodeDetails asks all nodes of the catalog; those that do not answer are left out.
func (c *Cluster) NodeDetails(ctx context.Context) (map[id.NodeID]NodeDetails, error) {
	ctx, cancel := context.WithTimeout(ctx, peer.Timeout)
	defer cancel()
	own := c.vitals.Figures()
	out := map[id.NodeID]NodeDetails{c.cfg.Node: {
		Draining: c.unloader.Draining(), Start: c.StartProgress(), Reads: catalog.NewestVersion, Counters: c.counters(), Vitals: &own,
		Lost: len(c.host.LostMembers()),
	}}
	err := c.peers.Ask(ctx, func(ctx context.Context, n id.NodeID, node nodev1.NodeClient) (func() error, error) {
		r, err := node.NodeStatus(ctx, &nodev1.NodeStatusRequest{Brief: true})
		if err != nil {
			return nil, err
		}
		s := r.GetStart()
		return func() error {
			out[n] = NodeDetails{
				Draining: r.GetDraining(), Reads: metadata.ReadsOf(r), Counters: r.GetCounters(), Vitals: vitals.FromWire(r.GetVitals()), Lost: len(r.GetLost()),
				Start: StartProgress{Phase: StartPhase(s.GetPhase()), Done: s.GetDone(), Total: s.GetTotal(), Unit: s.GetUnit()},
			}
			return nil
		}, nil
	}, func(id.NodeID) {})
	return out, err
}
