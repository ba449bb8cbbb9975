//go:build linux

package attack

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// guest is the authorization of the user that a new cluster has.
const guest = "Basic Z3Vlc3Q6Z3Vlc3Q="

// dial opens a connection of its own.
func (v *victim) dial() *grpc.ClientConn {
	v.Helper()
	cc, err := grpc.NewClient(v.node.Client, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(1<<30)))
	if err != nil {
		v.Fatal(err)
	}
	v.Cleanup(func() { _ = cc.Close() })
	return cc
}

// encoded is a codec for requests that are encoded already, and whose bytes many calls share.
type encoded struct{}

func (encoded) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func (encoded) Unmarshal(mem.BufferSlice, any) error { return nil }

func (encoded) Name() string { return "proto" }

// unfinished makes calls of PublishOne that send their message and never say that it was the last. It returns how many of them were
// answered. The calls end with the context.
func (v *victim) unfinished(ctx context.Context, calls, bytes int, authorization string) (answered *atomic.Int64) {
	v.Helper()
	return v.unfinishedOn(ctx, v.dial(), calls, bytes, authorization)
}

// unfinishedOn is unfinished on a connection that there is.
func (v *victim) unfinishedOn(ctx context.Context, cc *grpc.ClientConn, calls, bytes int, authorization string) (answered *atomic.Int64) {
	v.Helper()
	if authorization != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", authorization)
	}
	message, err := proto.Marshal(&brokerv1.PublishOneRequest{Message: &brokerv1.Message{RoutingKey: "honest", Body: make([]byte, bytes)}})
	if err != nil {
		v.Fatal(err)
	}
	answered = &atomic.Int64{}
	for range calls {
		go func() {
			stream, err := cc.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, brokerv1.Broker_PublishOne_FullMethodName,
				grpc.ForceCodecV2(encoded{}))
			if err == nil {
				_ = stream.SendMsg(message) // it may be refused already
				err = stream.RecvMsg(nil)
			}
			if status.Code(err) != codes.Canceled {
				answered.Add(1)
			}
		}()
	}
	return answered
}

// What is sent without credentials, or with wrong ones, is not taken into memory.
func TestRequestsOfUnauthenticated(t *testing.T) {
	v := attacked(t, bounds)
	h := v.behave(1000)
	h.more(10)
	for name, authorization := range map[string]string{"none": "", "wrong": "Basic Z3Vlc3Q6d3Jvbmc=", "no token": "Bearer quorate_x"} {
		v.forgetPeak()
		before := v.peak()
		const calls = 100
		answered := v.unfinished(t.Context(), calls, 10<<20, authorization)
		v.until("all are refused", func() error {
			if n := answered.Load(); n < calls {
				return fmt.Errorf("%d of %d", n, calls)
			}
			return nil
		})
		if grown := v.peak() - before; grown > noise {
			t.Errorf("%s: %d calls took %d KiB", name, calls, grown>>10)
		} else {
			t.Logf("%s: memory grew by %d KiB", name, grown>>10)
		}
		h.more(10)
	}
	if v.figure("quorate_grpc_unauthenticated_holds_total") == 0 || v.figure("quorate_grpc_unauthenticated_held_seconds_total") == 0 {
		t.Error("no connection was held back")
	}
	h.end()
}

// Large messages of who has logged in have a budget, at which they wait; small ones go on.
func TestLargeMessagesWait(t *testing.T) {
	const budget = 64 << 20
	v := attacked(t, fmt.Sprintf("limits:\n  incoming_bytes: %d\n", budget))
	h := v.behave(1000)
	h.more(10)
	v.forgetPeak()
	before := v.peak()
	v.unfinished(t.Context(), 60, 8<<20, guest)
	v.until("some wait", func() error {
		if v.figure(`quorate_incoming_waiting{protocol="grpc"}`) == 0 {
			return errors.New("none does")
		}
		return nil
	})
	h.more(50)
	if n := v.figure(`quorate_incoming_bytes{protocol="grpc"}`); n > budget/4 { // of one connection
		t.Errorf("%v bytes are being received", n)
	}
	if grown := v.peak() - before; grown > budget+noise {
		t.Errorf("they took %d KiB", grown>>10)
	} else {
		t.Logf("memory grew by %d KiB", grown>>10)
	}
	h.end()
}

// A large message that does not come keeps others waiting for some seconds, not for minutes; then its call ends, and its connection
// continues. Small ones do not wait for it.
func TestSlowMessage(t *testing.T) {
	t.Parallel()
	const budget, large = 4 << 20, 6 << 20
	v := attacked(t, fmt.Sprintf("limits:\n  incoming_bytes: %d\n", budget))
	h := v.behave(1000)
	h.more(1)
	cc := v.dial()
	watch, err := healthv1.NewHealthClient(cc).Watch(t.Context(), &healthv1.HealthCheckRequest{Service: "no such"})
	if err == nil {
		_, err = watch.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { _, err := watch.Recv(); ended <- err }()
	slow := v.unfinishedOn(t.Context(), cc, 1, large, guest)
	v.until("it has the room", func() error {
		if n := v.figure(`quorate_incoming_bytes{protocol="grpc"}`); n < large {
			return fmt.Errorf("%v bytes", n)
		}
		return nil
	})
	next := v.behave(3 << 20) // it waits
	next.more(1)
	if n := slow.Load(); n != 1 {
		t.Errorf("%d of the slow calls have ended", n)
	}
	if n := v.figure(`quorate_incoming_late_total{protocol="grpc"}`); n != 1 {
		t.Errorf("%v were late", n)
	}
	select {
	case err := <-ended:
		t.Errorf("the connection has ended with its call: %v", err)
	default:
	}
	next.end()
	h.more(10)
	h.end()
}

// AMQP and gRPC share one budget: what a user leaves unfinished over the one has others wait over the other, and leaves one message its
// way in any case. What is given back lets the others in.
func TestBudgetOfAll(t *testing.T) {
	t.Parallel()
	const budget, large = 16 << 20, 4 << 20 // of a connection over gRPC
	v := attacked(t, fmt.Sprintf("limits:\n  incoming_bytes: %d\n", budget))
	h := v.behave(1000)
	h.more(1)
	for range 3 { // a third fourth is as much as there is
		ch := v.amqpStuck(1<<30, large+large/2)
		go func() {
			_ = ch.PublishWithContext(t.Context(), "", "honest", false, false, amqp091.Publishing{Body: make([]byte, 2*large)})
		}()
	}
	taken := func(protocol string) float64 {
		return v.figure(fmt.Sprintf("quorate_incoming_bytes{protocol=%q}", protocol))
	}
	v.until("AMQP has taken it", func() error {
		if n := taken("amqp"); n < budget-large {
			return fmt.Errorf("%v bytes", n)
		}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	v.unfinished(ctx, 1, large, guest)
	v.until("one over gRPC has room", func() error {
		if n := taken("grpc"); n < large {
			return fmt.Errorf("%v bytes", n)
		}
		return nil
	})
	answered := v.unfinished(t.Context(), 1, large, guest)
	v.until("the next one waits", func() error {
		if n := v.figure(`quorate_incoming_waiting{protocol="grpc"}`); n != 1 {
			return fmt.Errorf("%v wait", n)
		}
		return nil
	})
	cancel()
	v.until("it has room when the first one is gone", func() error {
		if n := v.figure(`quorate_incoming_waiting{protocol="grpc"}`); n != 0 {
			return fmt.Errorf("%v wait", n)
		}
		return nil
	})
	if n := answered.Load(); n != 0 {
		t.Errorf("%d were answered", n)
	}
	h.more(10)
	h.end()
}

// Watches of health are few for each connection, and end with those that give way to others. One that asks for
// health now and then is let be.
func TestWatches(t *testing.T) {
	t.Parallel()
	v := attacked(t, bounds)
	h := v.behave(1000)
	probe := healthv1.NewHealthClient(v.dial())
	check := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		if r, err := probe.Check(ctx, &healthv1.HealthCheckRequest{}); err != nil || r.GetStatus() != healthv1.HealthCheckResponse_SERVING {
			t.Errorf("%v, %v", r, err)
		}
	}
	v.until("the node serves", func() error { return v.node.Ready(t.Context()) })
	v.until("the node says so", func() error {
		r, err := probe.Check(t.Context(), &healthv1.HealthCheckRequest{})
		if err == nil && r.GetStatus() != healthv1.HealthCheckResponse_SERVING {
			err = errors.New(r.GetStatus().String())
		}
		return err
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const conns, each = 20, 200
	var watching, refused atomic.Int64
	for range conns {
		cc := healthv1.NewHealthClient(v.dial())
		for range each {
			go func() {
				s, err := cc.Watch(ctx, &healthv1.HealthCheckRequest{})
				if err == nil {
					_, err = s.Recv()
				}
				switch {
				case err == nil:
					watching.Add(1)
				case status.Code(err) == codes.ResourceExhausted:
					refused.Add(1)
				}
			}()
		}
	}
	v.until("the others are refused", func() error {
		if w, r := watching.Load(), refused.Load(); w != conns*4 || w+r != conns*each {
			return fmt.Errorf("%d watch, %d are refused", w, r)
		}
		return nil
	})
	late := v.figure(`quorate_gate_late_total{gate="clients"}`)
	silent := v.crowd() // it has to go, those before it not
	silent.come(1, v.node.Client, nil)
	silent.ended()
	check()
	if n := v.figure(`quorate_gate_late_total{gate="clients"}`) - late; n != 1 {
		t.Errorf("%v were closed, want the silent one alone", n)
	}
	h.more(10)
	h.end()
}
