package grpcapi

import (
	"context"

	"github.com/quorate/quorate/broker"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// connectionsServer serves Connections over the broker; it keeps no state.
type connectionsServer struct {
	brokerv1.UnimplementedConnectionsServer
	b *broker.Broker
}

// ListConnections lists clients' connections to all nodes.
func (s *connectionsServer) ListConnections(ctx context.Context, req *brokerv1.ListConnectionsRequest) (*brokerv1.ListConnectionsResponse, error) {
	all, silent, err := s.b.Connections.ClientConnections(ctx, req.GetVhost(), req.GetUser())
	if err != nil {
		return nil, err
	}
	out := &brokerv1.ListConnectionsResponse{Connections: make([]*brokerv1.Connection, len(all)), Silent: silent}
	for i := range all {
		x := &all[i]
		out.Connections[i] = &brokerv1.Connection{
			Id: x.ID, Node: string(x.Node), Name: x.Name, Protocol: x.Protocol, Tls: x.TLS, User: valid(x.User), Vhost: valid(x.VHost),
			PeerAddress: x.Peer, Channels: uint32(x.Channels), State: x.State, ClientName: valid(x.ClientName), // at most 65,535
			Product: valid(x.Product), ConnectedAtMs: x.SinceMs, ReceivedBytes: x.Received, SentBytes: x.Sent,
		}
	}
	return out, nil
}

// ListConsumers lists clients' consumers on all nodes.
func (s *connectionsServer) ListConsumers(ctx context.Context, req *brokerv1.ListConsumersRequest) (*brokerv1.ListConsumersResponse, error) {
	all, silent, err := s.b.Connections.Consumers(ctx, req.GetVhost(), req.GetQueue())
	if err != nil {
		return nil, err
	}
	out := &brokerv1.ListConsumersResponse{Consumers: make([]*brokerv1.Consumer, len(all)), Silent: silent}
	for i := range all {
		x := &all[i]
		out.Consumers[i] = &brokerv1.Consumer{
			Vhost: valid(x.VHost), Queue: valid(x.Queue), Tag: valid(x.Tag), Node: string(x.Node), Connection: x.Connection,
			ConnectionName: x.ConnectionName, User: valid(x.User), Prefetch: x.Prefetch, Priority: x.Priority, AutoAck: x.AutoAck,
			Exclusive: x.Exclusive, Activity: x.Activity, Unsettled: x.Unsettled, Buffered: x.Buffered, ConsumingSinceMs: x.SinceMs,
		}
	}
	return out, nil
}

// CloseConnection ends a connection.
func (s *connectionsServer) CloseConnection(ctx context.Context, req *brokerv1.CloseConnectionRequest) (*brokerv1.CloseConnectionResponse, error) {
	if err := s.b.Connections.EndConnection(ctx, req.GetConnection(), req.GetReason()); err != nil {
		return nil, err
	}
	return &brokerv1.CloseConnectionResponse{}, nil
}
