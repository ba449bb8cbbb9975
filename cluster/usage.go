package cluster

import (
	"context"

	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/cluster/peer"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Usage answers for this node.
func (s calls) Usage(_ context.Context, r *nodev1.UsageRequest) (*nodev1.UsageResponse, error) {
	u := s.c.clients.Usage(r.GetUser(), r.GetVhost())
	return &nodev1.UsageResponse{
		UserConnections: u.UserConnections, UserChannels: u.UserChannels, VhostConnections: u.VHostConnections,
	}, nil
}

// UsageElsewhere sums up what the other nodes have of a user and of a vhost; those that do
// not answer within 2 s count as having nothing.
func (c *Cluster) UsageElsewhere(ctx context.Context, user, vhost string) (sum clients.Usage) {
	ctx, cancel := context.WithTimeout(ctx, peer.Timeout)
	defer cancel()
	_ = c.peers.Ask(ctx, func(ctx context.Context, _ id.NodeID, node nodev1.NodeClient) (func() error, error) {
		r, err := node.Usage(ctx, &nodev1.UsageRequest{User: user, Vhost: vhost})
		if err != nil {
			return nil, err
		}
		return func() error {
			sum.UserConnections += r.GetUserConnections()
			sum.UserChannels += r.GetUserChannels()
			sum.VHostConnections += r.GetVhostConnections()
			return nil
		}, nil
	}, func(id.NodeID) {})
	return sum
}

// Self returns this node and which of its lives this process is.
func (c *Cluster) Self() (id.NodeID, id.Epoch) { return c.cfg.Node, c.epoch }

// LeadsCatalog tells whether this node leads the catalog, as far as it knows.
func (c *Cluster) LeadsCatalog() bool { return c.catalog.leader() == c.cfg.Node }

// Linked tells whether this node's links to another one are up, or it is this one.
func (c *Cluster) Linked(n id.NodeID) bool {
	_, up := c.mux.Connected(n)
	return up || n == c.cfg.Node
}
