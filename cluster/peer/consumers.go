package peer

import (
	"context"

	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// ListConsumers returns the consumers of this node's clients, for another one.
func (c *Clients) ListConsumers(_ context.Context, r *nodev1.ListConsumersRequest) (*nodev1.ListConsumersResponse, error) {
	out := &nodev1.ListConsumersResponse{}
	for _, x := range c.ownConsumers(r.GetVhost(), r.GetQueue()) {
		out.Consumers = append(out.Consumers, &nodev1.ClientConsumer{
			Vhost: x.VHost, Queue: x.Queue, Tag: x.Tag, Connection: x.Connection, ConnectionName: x.ConnectionName, User: x.User,
			Prefetch: x.Prefetch, Priority: x.Priority, AutoAck: x.AutoAck, Exclusive: x.Exclusive, Activity: x.Activity,
			Unsettled: x.Unsettled, Buffered: x.Buffered, SinceMs: x.SinceMs, Peer: x.Peer, Arguments: x.Arguments, Channel: x.Channel,
		})
	}
	return out, nil
}

func (c *Clients) ownConsumers(vhost, queue string) []clients.ConsumerInfo {
	return c.own.Consumers(c.connectionPrefix(), vhost, queue)
}

// Consumers returns the consumers of the clients of all nodes, by node, and the nodes that
// did not answer within 2 s. What vhost and queue leave out is not among them; "" leaves out none.
func (c *Clients) Consumers(ctx context.Context, vhost, queue string) (all []clients.ConsumerInfo, silent []id.NodeID, err error) {
	all, silent, err = ofAll(ctx, c.peers, c.ownConsumers(vhost, queue), func(ctx context.Context, node nodev1.NodeClient) ([]clients.ConsumerInfo, error) {
		r, err := node.ListConsumers(ctx, &nodev1.ListConsumersRequest{Vhost: vhost, Queue: queue})
		if err != nil {
			return nil, err
		}
		theirs := make([]clients.ConsumerInfo, 0, len(r.GetConsumers()))
		for _, x := range r.GetConsumers() {
			theirs = append(theirs, clients.ConsumerInfo{
				VHost: x.GetVhost(), Queue: x.GetQueue(), Tag: x.GetTag(), Connection: x.GetConnection(), ConnectionName: x.GetConnectionName(),
				User: x.GetUser(), Prefetch: x.GetPrefetch(), Priority: x.GetPriority(), AutoAck: x.GetAutoAck(), Exclusive: x.GetExclusive(),
				Activity: x.GetActivity(), Unsettled: x.GetUnsettled(), Buffered: x.GetBuffered(), SinceMs: x.GetSinceMs(), Peer: x.GetPeer(), Arguments: x.GetArguments(),
				Channel: x.GetChannel(),
			})
		}
		return theirs, nil
	}, func(x *clients.ConsumerInfo, n id.NodeID) { x.Node = n })
	return all, silent, err
}
