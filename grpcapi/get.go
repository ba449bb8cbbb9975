package grpcapi

import (
	"context"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/failure"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// Get takes one message, if there is one.
func (x *brokerServer) Get(ctx context.Context, req *brokerv1.GetRequest) (*brokerv1.GetResponse, error) {
	got, err := x.s.b.Get(ctx, vhostOf(req.GetVhost()), req.GetQueue(), req.GetAutoAck())
	if err != nil {
		return nil, err
	}
	out := &brokerv1.GetResponse{SettleToken: got.Token, Ready: got.Ready}
	if got.Delivery != nil {
		out.Delivery = &brokerv1.Delivery{}
		setDelivery(out.Delivery, &brokerv1.Properties{}, got.Delivery)
	}
	return out, nil
}

// Settle settles a message that Get took.
func (x *brokerServer) Settle(ctx context.Context, req *brokerv1.SettleRequest) (*brokerv1.SettleResponse, error) {
	annotations, err := fromNames("annotations", req.GetAnnotations(), failure.Error{Kind: "message"})
	if err != nil {
		return nil, err
	}
	err = x.s.b.SettleToken(ctx, req.GetSettleToken(), outcome(req.GetOutcome()), req.GetFailed(), annotations,
		broker.Delay{AtMs: req.GetDeliverAtMs(), AfterMs: req.GetDelayMs()})
	if err != nil {
		return nil, err
	}
	return &brokerv1.SettleResponse{}, nil
}
