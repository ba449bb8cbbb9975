package client

import (
	"context"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// Connections lists clients' connections to all nodes, as r chooses. The answer names nodes
// that could not be asked.
func (c *Client) Connections(ctx context.Context, r *brokerv1.ListConnectionsRequest) (*brokerv1.ListConnectionsResponse, error) {
	return do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.ListConnectionsRequest) (*brokerv1.ListConnectionsResponse, error) {
		return n.clients.ListConnections(ctx, r)
	})
}

// Consumers lists the consumers of clients of all nodes, as r chooses. The answer names nodes
// that could not be asked.
func (c *Client) Consumers(ctx context.Context, r *brokerv1.ListConsumersRequest) (*brokerv1.ListConsumersResponse, error) {
	return do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.ListConsumersRequest) (*brokerv1.ListConsumersResponse, error) {
		return n.clients.ListConsumers(ctx, r)
	})
}

// CloseConnection ends a client's connection, which is named by its id or its name. The client
// is told the reason, over gRPC also by whom.
func (c *Client) CloseConnection(ctx context.Context, connection, reason string) error {
	r := &brokerv1.CloseConnectionRequest{Connection: connection, Reason: reason}
	_, err := do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.CloseConnectionRequest) (*brokerv1.CloseConnectionResponse, error) {
		return n.clients.CloseConnection(ctx, r)
	})
	return err
}
