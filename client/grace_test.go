package client

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// forgetful is a node that knows the user for some streams, then does not for some, and then does
// again.
type forgetful struct {
	brokerv1.UnimplementedBrokerServer
	brokerv1.UnimplementedAdminServer

	known, unknown, again int32
	streams               atomic.Int32
}

func (f *forgetful) login() error {
	n := f.streams.Add(1)
	if n <= f.known || n > f.known+f.unknown && n <= f.known+f.unknown+f.again {
		return nil
	}
	return status.Error(codes.Unauthenticated, "user or password is wrong")
}

// Publish answers one message of a stream and breaks it.
func (f *forgetful) Publish(s grpc.BidiStreamingServer[brokerv1.PublishRequest, brokerv1.PublishResponse]) error {
	if err := f.login(); err != nil {
		return err
	}
	for {
		r, err := s.Recv()
		if err != nil {
			return err
		}
		if r.GetMessage() == nil {
			continue
		}
		if err := s.Send(&brokerv1.PublishResponse{Sequence: r.GetSequence(), Result: &brokerv1.PublishResult{Result: brokerv1.PublishResult_RESULT_CONFIRMED}}); err != nil {
			return err
		}
		return status.Error(codes.Unavailable, "the node stops")
	}
}

// Consume opens a consumer, then breaks the stream.
func (f *forgetful) Consume(s grpc.BidiStreamingServer[brokerv1.ConsumeRequest, brokerv1.ConsumeResponse]) error {
	if err := f.login(); err != nil {
		return err
	}
	if _, err := s.Recv(); err != nil {
		return err
	}
	if err := s.Send(&brokerv1.ConsumeResponse{Kind: &brokerv1.ConsumeResponse_Opened{Opened: &brokerv1.ConsumeOpened{}}}); err != nil {
		return err
	}
	return status.Error(codes.Unavailable, "the node stops")
}

// A login that succeeded before is repeated for LoginGrace. A first login that is refused is an
// error at once.
func TestLoginGrace(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		node  *forgetful
		grace time.Duration
		after int32 // streams until the publisher ends; 0: it continues
	}{
		"for a while": {&forgetful{known: 1, unknown: 4, again: 1}, 0, 0},
		"over":        {&forgetful{known: 1, unknown: 100}, time.Nanosecond, 3},
		"none":        {&forgetful{known: 1, unknown: 100}, -1, 2},
		"first":       {&forgetful{unknown: 100}, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := New(Config{Addresses: []string{serve(t, row.node)}, FixedAddresses: true, LoginGrace: row.grace})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			p, err := c.Publisher(PublisherConfig{})
			if err != nil {
				t.Fatal(err)
			}
			var ended error
			for range 2 {
				if _, err := p.Publish(t.Context(), Message{RoutingKey: "q"}); err != nil {
					ended = err
				}
			}
			var e *Error
			if refused := errors.As(ended, &e) && e.Code == codes.Unauthenticated; refused != (row.after > 0) {
				t.Errorf("it ended with %v", ended)
			}
			if n := row.node.streams.Load(); row.after > 0 && n != row.after {
				t.Errorf("it ended after %d streams, want %d", n, row.after)
			}
		})
	}
}

// The same holds for a consumer.
func TestConsumersLoginGrace(t *testing.T) {
	t.Parallel()
	node := &forgetful{known: 1, unknown: 3, again: 1}
	c, err := New(Config{Addresses: []string{serve(t, node)}, FixedAddresses: true, LoginGrace: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := c.Consume(t.Context(), ConsumeConfig{Queue: "q"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	deadline := time.Now().Add(time.Minute)
	for node.streams.Load() < 5 {
		if err := s.failure(); err != nil {
			t.Fatalf("it ended after %d streams: %v", node.streams.Load(), err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("it stopped after %d streams", node.streams.Load())
		}
		time.Sleep(time.Millisecond)
	}
}
