package peer

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// ListConnections returns the connections to this node, for another one.
func (c *Clients) ListConnections(context.Context, *nodev1.ListConnectionsRequest) (*nodev1.ListConnectionsResponse, error) {
	out := &nodev1.ListConnectionsResponse{}
	for _, x := range c.ownConnections() {
		out.Connections = append(out.Connections, &nodev1.ClientConnection{
			Id: x.ID, Name: x.Name, Protocol: x.Protocol, Tls: x.TLS, User: x.User, Vhost: x.VHost, Peer: x.Peer,
			Channels: uint32(x.Channels), State: x.State, ClientName: x.ClientName, Product: x.Product, SinceMs: x.SinceMs, // a few thousand
			Received: x.Received, Sent: x.Sent, Local: x.Local, Mechanism: x.Mechanism, FrameMax: x.FrameMax, ChannelMax: x.ChannelMax,
			HeartbeatSeconds: x.HeartbeatSeconds, Properties: x.Properties,
		})
	}
	return out, nil
}

// EndConnection ends a connection to this node, for another one.
func (c *Clients) EndConnection(_ context.Context, r *nodev1.EndConnectionRequest) (*nodev1.EndConnectionResponse, error) {
	return &nodev1.EndConnectionResponse{Ended: c.endOwnConnection(r.GetId(), clients.Closing{By: r.GetBy(), Reason: r.GetReason()})}, nil
}

// Connections returns the connections to all nodes, by node and age, and the nodes that
// did not answer within 2 s.
func (c *Clients) Connections(ctx context.Context) (all []clients.ConnectionInfo, silent []id.NodeID, err error) {
	return ofAll(ctx, c.peers, c.ownConnections(), func(ctx context.Context, node nodev1.NodeClient) ([]clients.ConnectionInfo, error) {
		r, err := node.ListConnections(ctx, &nodev1.ListConnectionsRequest{})
		if err != nil {
			return nil, err
		}
		theirs := make([]clients.ConnectionInfo, 0, len(r.GetConnections()))
		for _, x := range r.GetConnections() {
			theirs = append(theirs, clients.ConnectionInfo{
				ID: x.GetId(), Name: x.GetName(), Protocol: x.GetProtocol(), TLS: x.GetTls(), User: x.GetUser(), VHost: x.GetVhost(),
				Peer: x.GetPeer(), Channels: int(x.GetChannels()), State: x.GetState(), ClientName: x.GetClientName(),
				Product: x.GetProduct(), SinceMs: x.GetSinceMs(), Received: x.GetReceived(), Sent: x.GetSent(), Local: x.GetLocal(), Mechanism: x.GetMechanism(),
				FrameMax: x.GetFrameMax(), ChannelMax: x.GetChannelMax(), HeartbeatSeconds: x.GetHeartbeatSeconds(), Properties: x.GetProperties(),
			})
		}
		return theirs, nil
	}, func(x *clients.ConnectionInfo, n id.NodeID) { x.Node = n })
}

// End ends a connection to a node, and reports whether there was one of the id. Errors:
// traffic.ErrUnavailable, or that of ctx.
func (c *Clients) End(ctx context.Context, n id.NodeID, id string, why clients.Closing) (bool, error) {
	if n == c.peers.Node {
		return c.endOwnConnection(id, why), nil
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	node, err := c.peers.Client(n)
	if err != nil {
		return false, fmt.Errorf("node %s: %w: %w", n, traffic.ErrUnavailable, err)
	}
	r, err := node.EndConnection(ctx, &nodev1.EndConnectionRequest{Id: id, Reason: why.Reason, By: why.By})
	if err != nil {
		return false, fmt.Errorf("node %s: %w: %w", n, traffic.ErrUnavailable, err)
	}
	return r.GetEnded(), nil
}
