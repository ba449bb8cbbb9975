package grpcapi

import (
	"context"

	"github.com/quorate/quorate/broker"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// transactionsServer implements the Transactions service.
type transactionsServer struct {
	brokerv1.UnimplementedTransactionsServer
	b *broker.Broker
}

// SettleAndPublish acknowledges messages and publishes others, both or neither (G-22).
func (s *transactionsServer) SettleAndPublish(ctx context.Context, req *brokerv1.SettleAndPublishRequest) (*brokerv1.SettleAndPublishResponse, error) {
	sender, err := s.b.NewSender(ctx, &connectionOf(ctx).rights)
	if err != nil {
		return nil, err
	}
	outputs := make([]broker.Publish, len(req.GetOutputs()))
	for i, m := range req.GetOutputs() {
		if err := setPublish(&outputs[i], m); err != nil {
			return nil, err
		}
	}
	if err := s.b.SettleAndPublish(ctx, req.GetSettleToken(), req.GetDeliveryIds(), sender, outputs); err != nil {
		return nil, err
	}
	return &brokerv1.SettleAndPublishResponse{}, nil
}
