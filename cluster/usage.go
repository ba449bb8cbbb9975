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
	u := s.c.clients.Usage(r.GetUser(), r.GetVhost(), id.QueueUID(r.GetQueue()))
	return &nodev1.UsageResponse{
		UserConnections: u.UserConnections, UserChannels: u.UserChannels, UserConsumers: u.UserConsumers,
		VhostConnections: u.VHostConnections, VhostChannels: u.VHostChannels, VhostConsumers: u.VHostConsumers, QueueConsumers: u.QueueConsumers,
	}, nil
}

// UsageElsewhere sums up what the other nodes have of a user, of a vhost and of a queue; those that
// do not answer within 2 s count as having nothing.
func (c *Cluster) UsageElsewhere(ctx context.Context, user, vhost string, queue id.QueueUID) (sum clients.Usage) {
	ctx, cancel := context.WithTimeout(ctx, peer.Timeout)
	defer cancel()
	_ = c.peers.Ask(ctx, func(ctx context.Context, _ id.NodeID, node nodev1.NodeClient) (func() error, error) {
		r, err := node.Usage(ctx, &nodev1.UsageRequest{User: user, Vhost: vhost, Queue: uint64(queue)})
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

// Linked tells whether this node's links to another one are up, or it is this one.
func (c *Cluster) Linked(n id.NodeID) bool {
	_, up := c.mux.Connected(n)
	return up || n == c.cfg.Node
}
