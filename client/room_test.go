package client

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// full is a node that has no room at first, and asks clients to wait.
type full struct {
	brokerv1.UnimplementedBrokerServer
	brokerv1.UnimplementedAdminServer

	refusals int32
	asks     time.Duration
	asked    atomic.Int32
}

func (f *full) room() error {
	if f.asked.Add(1) > f.refusals {
		return nil
	}
	s, err := status.New(codes.ResourceExhausted, "RESOURCE_EXHAUSTED: too many messages already wait for room").
		WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(f.asks)}, &errdetails.ErrorInfo{Reason: string(ResourceExhausted)})
	return errors.Join(s.Err(), err)
}

func (f *full) PublishOne(context.Context, *brokerv1.PublishOneRequest) (*brokerv1.PublishOneResponse, error) {
	return &brokerv1.PublishOneResponse{Result: &brokerv1.PublishResult{Result: brokerv1.PublishResult_RESULT_CONFIRMED}}, f.room()
}

func (f *full) ClusterStatus(context.Context, *brokerv1.ClusterStatusRequest) (*brokerv1.ClusterStatusResponse, error) {
	return &brokerv1.ClusterStatusResponse{Cluster: "test"}, f.room()
}

func (f *full) Consume(s grpc.BidiStreamingServer[brokerv1.ConsumeRequest, brokerv1.ConsumeResponse]) error {
	if err := f.room(); err != nil {
		return err
	}
	if err := s.Send(&brokerv1.ConsumeResponse{Kind: &brokerv1.ConsumeResponse_Opened{Opened: &brokerv1.ConsumeOpened{}}}); err != nil {
		return err
	}
	<-s.Context().Done()
	return nil
}

// What a node refuses for lack of room is repeated after the time that the node names, and within
// the caller's own time. That holds for single calls, including those that the client otherwise
// never repeats, and for consumers.
func TestWaitsForRoom(t *testing.T) {
	t.Parallel()
	calls := map[string]func(context.Context, *Client) error{
		"publish one": func(ctx context.Context, c *Client) error {
			_, err := c.PublishOne(ctx, Message{RoutingKey: "q"})
			return err
		},
		"status": func(ctx context.Context, c *Client) error {
			_, err := c.ClusterStatus(ctx)
			return err
		},
		"consume": func(ctx context.Context, c *Client) error {
			s, err := c.Consume(ctx, ConsumeConfig{Queue: "q"})
			if err == nil {
				s.Close()
			}
			return err
		},
	}
	const asks = 10 * time.Millisecond
	for name, call := range calls {
		node := &full{refusals: 2, asks: asks}
		c, err := New(Config{Addresses: []string{serve(t, node)}, FixedAddresses: true})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := call(t.Context(), c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(began); node.asked.Load() != 3 || took < 2*asks {
			t.Errorf("%s: the node was asked %d times in %v", name, node.asked.Load(), took)
		}
		c.Close()
	}
	delete(calls, "consume") // it continues for as long as the client
	for name, call := range calls {
		node := &full{refusals: 1, asks: time.Hour}
		for within, cfg := range map[time.Duration]Config{time.Minute: {}, 0: {CallTimeout: time.Minute}} {
			cfg.Addresses, cfg.FixedAddresses = []string{serve(t, node)}, true
			c, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			node.asked.Store(0)
			ctx, cancel := t.Context(), func() {}
			if within > 0 {
				ctx, cancel = context.WithTimeout(ctx, within)
			}
			if err := call(ctx, c); ClassOf(err) != ResourceExhausted || errors.Is(err, context.DeadlineExceeded) || node.asked.Load() != 1 {
				t.Errorf("%s: within %v, %v after %d calls", name, within, err, node.asked.Load())
			}
			cancel()
			c.Close()
		}
	}
}
