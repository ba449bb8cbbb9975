package cluster

import (
	"context"

	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Usage is what clients have open on one or more nodes (VH-4).
type Usage struct {
	UserConnections, UserChannels, UserConsumers    int64
	VHostConnections, VHostChannels, VHostConsumers int64
	QueueConsumers                                  int64
}

// Usage answers for this node.
func (s calls) Usage(_ context.Context, r *nodev1.UsageRequest) (*nodev1.UsageResponse, error) {
	if s.c.cfg.Usage == nil {
		return &nodev1.UsageResponse{}, nil
	}
	u := s.c.cfg.Usage(r.GetUser(), r.GetVhost(), id.QueueUID(r.GetQueue()))
	return &nodev1.UsageResponse{
		UserConnections: u.UserConnections, UserChannels: u.UserChannels, UserConsumers: u.UserConsumers,
		VhostConnections: u.VHostConnections, VhostChannels: u.VHostChannels, VhostConsumers: u.VHostConsumers, QueueConsumers: u.QueueConsumers,
	}, nil
}

// UsageElsewhere sums up what the other nodes have of a user, of a vhost and of a queue; those
// that do not answer within 2 s count as having nothing.
func (c *Cluster) UsageElsewhere(ctx context.Context, user, vhost string, queue id.QueueUID) (sum Usage) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	_ = c.askOthers(ctx, func(ctx context.Context, _ id.NodeID, peer nodev1.NodeClient) (func() error, error) {
		r, err := peer.Usage(ctx, &nodev1.UsageRequest{User: user, Vhost: vhost, Queue: uint64(queue)})
		if err != nil {
			return nil, err
		}
		return func() error {
			sum.UserConnections += r.GetUserConnections()
			sum.UserChannels += r.GetUserChannels()
			sum.UserConsumers += r.GetUserConsumers()
			sum.VHostConnections += r.GetVhostConnections()
			sum.VHostChannels += r.GetVhostChannels()
			sum.VHostConsumers += r.GetVhostConsumers()
			sum.QueueConsumers += r.GetQueueConsumers()
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
