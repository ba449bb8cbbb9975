package client

import (
	"context"
	"iter"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// Connections lists clients' connections to all nodes. The iterator ends with a *SilentNodesError
// if nodes did not answer.
func (c *Client) Connections(ctx context.Context, r ListConnectionsRequest) iter.Seq2[ConnectionInfo, error] {
	type answer struct {
		Connections []ConnectionInfo `api:"connections"`
		Silent      []string         `api:"silent"`
	}
	return fromAll(func() ([]ConnectionInfo, []string, error) {
		out, err := ask[answer](ctx, c, r, clients, brokerv1.ConnectionsClient.ListConnections)
		return out.Connections, out.Silent, err
	})
}

// Consumers lists clients' consumers on all nodes. The iterator ends with a *SilentNodesError if
// nodes did not answer.
func (c *Client) Consumers(ctx context.Context, r ListConsumersRequest) iter.Seq2[ConsumerInfo, error] {
	type answer struct {
		Consumers []ConsumerInfo `api:"consumers"`
		Silent    []string       `api:"silent"`
	}
	return fromAll(func() ([]ConsumerInfo, []string, error) {
		out, err := ask[answer](ctx, c, r, clients, brokerv1.ConnectionsClient.ListConsumers)
		return out.Consumers, out.Silent, err
	})
}

// CloseConnectionRequest names a connection by its id or its name.
type CloseConnectionRequest struct {
	Connection string `api:"connection"`
	Reason     string `api:"reason"` // which its client receives
}

// CloseConnection ends a client's connection. The client receives the reason, and over gRPC also
// who closed it.
func (c *Client) CloseConnection(ctx context.Context, r CloseConnectionRequest) error {
	_, err := ask[nothing](ctx, c, r, clients, brokerv1.ConnectionsClient.CloseConnection)
	return err
}
