package peer

import (
	"context"
	"strconv"

	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Clients are what the clients of all nodes have open, and what quotas count of them. Its methods may be
// called concurrently.
type Clients struct {
	peers  *Peers
	own    *clients.Registry
	epoch  id.Epoch
	stored func(clients.QuotaSubject) uint64
}

// NewClients returns those of all nodes. The registry has this node's, in the life of the epoch; stored
// returns what the queues hold of a subject that this node leads.
func NewClients(peers *Peers, own *clients.Registry, epoch id.Epoch, stored func(clients.QuotaSubject) uint64) *Clients {
	return &Clients{peers: peers, own: own, epoch: epoch, stored: stored}
}

// connectionPrefix begins the ids of the connections to this node.
func (c *Clients) connectionPrefix() string {
	return string(c.peers.Node) + "/" + strconv.FormatUint(uint64(c.epoch), 10) + "/"
}

func (c *Clients) ownConnections() []clients.ConnectionInfo {
	return c.own.List(c.connectionPrefix())
}

func (c *Clients) endOwnConnection(id string, why clients.Closing) bool {
	return c.own.End(c.connectionPrefix(), id, why)
}

// Usage returns what this node has, for another one.
func (c *Clients) Usage(_ context.Context, r *nodev1.UsageRequest) (*nodev1.UsageResponse, error) {
	u := c.own.Usage(r.GetUser(), r.GetVhost(), id.QueueUID(r.GetQueue()))
	return &nodev1.UsageResponse{
		UserConnections: u.UserConnections, UserChannels: u.UserChannels, UserConsumers: u.UserConsumers,
		VhostConnections: u.VHostConnections, VhostChannels: u.VHostChannels, VhostConsumers: u.VHostConsumers, QueueConsumers: u.QueueConsumers,
	}, nil
}

// UsageElsewhere sums up what the other nodes have of a user, of a vhost and of a queue; those that
// do not answer within 2 s count as having nothing.
func (c *Clients) UsageElsewhere(ctx context.Context, user, vhost string, queue id.QueueUID) (sum clients.Usage) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
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
