package cluster

import (
	"context"

	"google.golang.org/grpc"

	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Usage answers for this node.
func (s calls) Usage(ctx context.Context, r *nodev1.UsageRequest) (*nodev1.UsageResponse, error) {
	return s.c.everywhere.Usage(ctx, r)
}

// Quotas answers for this node.
func (s calls) Quotas(ctx context.Context, r *nodev1.QuotasRequest) (*nodev1.QuotasResponse, error) {
	return s.c.everywhere.ExchangeQuotas(ctx, r)
}

// ListConnections answers for this node.
func (s calls) ListConnections(ctx context.Context, r *nodev1.ListConnectionsRequest) (*nodev1.ListConnectionsResponse, error) {
	return s.c.everywhere.ListConnections(ctx, r)
}

// EndConnection ends a connection to this node.
func (s calls) EndConnection(ctx context.Context, r *nodev1.EndConnectionRequest) (*nodev1.EndConnectionResponse, error) {
	return s.c.everywhere.EndOwn(ctx, r)
}

// ListChannels answers for this node.
func (s calls) ListChannels(ctx context.Context, r *nodev1.ListChannelsRequest) (*nodev1.ListChannelsResponse, error) {
	return s.c.everywhere.ListChannels(ctx, r)
}

// ListConsumers answers for this node.
func (s calls) ListConsumers(ctx context.Context, r *nodev1.ListConsumersRequest) (*nodev1.ListConsumersResponse, error) {
	return s.c.everywhere.ListConsumers(ctx, r)
}

// ExchangeFigures answers for this node.
func (s calls) ExchangeFigures(_ *nodev1.ExchangeFiguresRequest, stream grpc.ServerStreamingServer[nodev1.ExchangeFiguresResponse]) error {
	return s.c.everywhere.SendExchanges(stream)
}

// LoginAttempts answers for this node.
func (s calls) LoginAttempts(ctx context.Context, r *nodev1.LoginAttemptsRequest) (*nodev1.LoginAttemptsResponse, error) {
	return s.c.everywhere.LoginAttempts(ctx, r)
}
