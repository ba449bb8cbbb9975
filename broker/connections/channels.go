package connections

import (
	"context"
	"slices"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/id"
)

// ChannelInfo is what operators see of a channel of a client's connection.
type ChannelInfo = clients.ChannelInfo

// Channels returns the channels of the clients of all nodes, by node and by the age of their connections, and the nodes
// that did not answer. If vhost or connection, an id, is not empty, it returns only channels of that vhost or connection. A
// caller sees the channels of the connections that it sees (VH-12).
func (cs *Connections) Channels(ctx context.Context, vhost, connection string) (all []ChannelInfo, silent []string, err error) {
	own, err := cs.ownOnly(ctx)
	if err != nil {
		return nil, nil, err
	}
	all, nodes, err := cs.everywhere.Channels(ctx, connection)
	if err != nil {
		return nil, nil, failure.Translate(err, failure.Error{Kind: "channels"})
	}
	all = slices.DeleteFunc(all, func(x ChannelInfo) bool { return !has(x.VHost, vhost) || !has(x.User, own) })
	return all, id.Names(nodes), nil
}
