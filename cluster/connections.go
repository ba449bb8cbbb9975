package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/quorate/quorate/cluster/peer"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// ClientConnection is what is known of a client's connection to a node.
type ClientConnection struct {
	Node           id.NodeID
	ID             string // node/epoch/number
	Name           string // both ends' addresses
	Protocol       string
	TLS            bool
	User, VHost    string
	Peer, Local    string // the client's address, and the node's
	Channels       int
	State          string
	ClientName     string // that the client gave it
	Product        string // of the client, with its version
	SinceMs        int64  // Unix time
	Received, Sent uint64 // bytes
	// Mechanism is how its user logged in; FrameMax in bytes, ChannelMax and HeartbeatSeconds
	// are what was agreed on. They are those of AMQP.
	Mechanism                              string
	FrameMax, ChannelMax, HeartbeatSeconds uint32
	// Properties are what the client tells of itself, as message.AppendTable writes them; nil:
	// none.
	Properties []byte
}

// Connections are the connections of this node's clients, and their consumers. Its methods may be called
// concurrently.
type Connections interface {
	// List returns those that have logged in, the oldest first.
	List() []ClientConnection
	// End ends one, and tells whether there was one of the id.
	End(id string, why Closing) bool
	// Consumers returns the consumers; what vhost and queue leave out is not among them, ""
	// leaves out none.
	Consumers(vhost, queue string) []ClientConsumer
}

// Closing is why a connection is ended.
type Closing struct {
	By     string // the user; "": nobody logs in
	Reason string // "": none is given
}

// ListConnections answers for this node.
func (s calls) ListConnections(context.Context, *nodev1.ListConnectionsRequest) (*nodev1.ListConnectionsResponse, error) {
	out := &nodev1.ListConnectionsResponse{}
	for _, x := range s.c.ownConnections() {
		out.Connections = append(out.Connections, &nodev1.ClientConnection{
			Id: x.ID, Name: x.Name, Protocol: x.Protocol, Tls: x.TLS, User: x.User, Vhost: x.VHost, Peer: x.Peer,
			Channels: uint32(x.Channels), State: x.State, ClientName: x.ClientName, Product: x.Product, SinceMs: x.SinceMs, // a few thousand
			Received: x.Received, Sent: x.Sent, Local: x.Local, Mechanism: x.Mechanism, FrameMax: x.FrameMax, ChannelMax: x.ChannelMax,
			HeartbeatSeconds: x.HeartbeatSeconds, Properties: x.Properties,
		})
	}
	return out, nil
}

// EndConnection ends a connection to this node.
func (s calls) EndConnection(_ context.Context, r *nodev1.EndConnectionRequest) (*nodev1.EndConnectionResponse, error) {
	return &nodev1.EndConnectionResponse{Ended: s.c.endOwnConnection(r.GetId(), Closing{By: r.GetBy(), Reason: r.GetReason()})}, nil
}

func (c *Cluster) ownConnections() []ClientConnection {
	if c.cfg.Connections == nil {
		return nil
	}
	return c.cfg.Connections.List()
}

func (c *Cluster) endOwnConnection(id string, why Closing) bool {
	return c.cfg.Connections != nil && c.cfg.Connections.End(id, why)
}

// ClientConnections returns the connections to all nodes, by node and age, and the nodes that
// did not answer within 2 s.
func (c *Cluster) ClientConnections(ctx context.Context) (all []ClientConnection, silent []id.NodeID, err error) {
	return ofAllNodes(ctx, c, c.ownConnections(), func(ctx context.Context, node nodev1.NodeClient) ([]ClientConnection, error) {
		r, err := node.ListConnections(ctx, &nodev1.ListConnectionsRequest{})
		if err != nil {
			return nil, err
		}
		theirs := make([]ClientConnection, 0, len(r.GetConnections()))
		for _, x := range r.GetConnections() {
			theirs = append(theirs, ClientConnection{
				ID: x.GetId(), Name: x.GetName(), Protocol: x.GetProtocol(), TLS: x.GetTls(), User: x.GetUser(), VHost: x.GetVhost(),
				Peer: x.GetPeer(), Channels: int(x.GetChannels()), State: x.GetState(), ClientName: x.GetClientName(),
				Product: x.GetProduct(), SinceMs: x.GetSinceMs(), Received: x.GetReceived(), Sent: x.GetSent(), Local: x.GetLocal(), Mechanism: x.GetMechanism(),
				FrameMax: x.GetFrameMax(), ChannelMax: x.GetChannelMax(), HeartbeatSeconds: x.GetHeartbeatSeconds(), Properties: x.GetProperties(),
			})
		}
		return theirs, nil
	}, func(x *ClientConnection, n id.NodeID) { x.Node = n })
}

// ofAllNodes adds what other nodes have to this node's own, by node, and tells each of whose it
// is. The nodes that do not answer within peer.Timeout are silent.
func ofAllNodes[T any](
	ctx context.Context, c *Cluster, own []T, ask func(context.Context, nodev1.NodeClient) ([]T, error), tell func(*T, id.NodeID),
) (all []T, silent []id.NodeID, err error) {
	ctx, cancel := context.WithTimeout(ctx, peer.Timeout)
	defer cancel()
	byNode := map[id.NodeID][]T{c.cfg.Node: own}
	err = c.peers.Ask(ctx, func(ctx context.Context, n id.NodeID, node nodev1.NodeClient) (func() error, error) {
		theirs, err := ask(ctx, node)
		return func() error { byNode[n] = theirs; return nil }, err
	}, func(n id.NodeID) { silent = append(silent, n) })
	for _, n := range slices.Sorted(maps.Keys(byNode)) {
		for i := range byNode[n] {
			tell(&byNode[n][i], n)
		}
		all = append(all, byNode[n]...)
	}
	slices.Sort(silent)
	return all, silent, err
}

// EndConnection ends a connection to a node, and tells whether there was one of the id. Errors:
// ErrUnavailable, or that of ctx.
func (c *Cluster) EndConnection(ctx context.Context, n id.NodeID, id string, why Closing) (bool, error) {
	if n == c.cfg.Node {
		return c.endOwnConnection(id, why), nil
	}
	ctx, cancel := context.WithTimeout(ctx, peer.Timeout)
	defer cancel()
	node, err := c.mux.Client(n)
	if err != nil {
		return false, fmt.Errorf("node %s: %w: %w", n, ErrUnavailable, err)
	}
	r, err := node.EndConnection(ctx, &nodev1.EndConnectionRequest{Id: id, Reason: why.Reason, By: why.By})
	if err != nil {
		return false, fmt.Errorf("node %s: %w: %w", n, ErrUnavailable, err)
	}
	return r.GetEnded(), nil
}
