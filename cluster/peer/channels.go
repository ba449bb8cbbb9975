package peer

import (
	"context"

	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// ListChannels returns the channels of this node's clients, for another one.
func (c *Clients) ListChannels(_ context.Context, r *nodev1.ListChannelsRequest) (*nodev1.ListChannelsResponse, error) {
	out := &nodev1.ListChannelsResponse{}
	for _, x := range c.ownChannels(r.GetConnection()) {
		out.Channels = append(out.Channels, &nodev1.ClientChannel{
			Connection: x.Connection, ConnectionName: x.ConnectionName, Peer: x.Peer, User: x.User, Vhost: x.VHost, Number: x.Number, State: x.State,
			Prefetch: x.Prefetch, Consumers: uint32(x.Consumers), Unsettled: x.Unsettled, Unconfirmed: x.Unconfirmed, Confirms: x.Confirms, Transacts: x.Transacts,
		})
	}
	return out, nil
}

func (c *Clients) ownChannels(connection string) []clients.ChannelInfo {
	return c.own.Channels(c.connectionPrefix(), connection)
}

// Channels returns the channels of the clients of all nodes, by node and by the age of their connections, and the nodes
// that did not answer within 2 s. If connection, an id, is not empty, it returns only those of that one.
func (c *Clients) Channels(ctx context.Context, connection string) (all []clients.ChannelInfo, silent []id.NodeID, err error) {
	return ofAll(ctx, c.peers, c.ownChannels(connection), func(ctx context.Context, node nodev1.NodeClient) ([]clients.ChannelInfo, error) {
		r, err := node.ListChannels(ctx, &nodev1.ListChannelsRequest{Connection: connection})
		if err != nil {
			return nil, err
		}
		theirs := make([]clients.ChannelInfo, 0, len(r.GetChannels()))
		for _, x := range r.GetChannels() {
			theirs = append(theirs, clients.ChannelInfo{
				Connection: x.GetConnection(), ConnectionName: x.GetConnectionName(), Peer: x.GetPeer(), User: x.GetUser(), VHost: x.GetVhost(),
				Number: x.GetNumber(), State: x.GetState(), Prefetch: x.GetPrefetch(), Consumers: int(x.GetConsumers()),
				Unsettled: x.GetUnsettled(), Unconfirmed: x.GetUnconfirmed(), Confirms: x.GetConfirms(), Transacts: x.GetTransacts(),
			})
		}
		return theirs, nil
	}, func(x *clients.ChannelInfo, n id.NodeID) { x.Node = n })
}
