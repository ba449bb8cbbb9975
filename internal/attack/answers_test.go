//go:build linux

package attack

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/client"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// answers counts how calls whose answers nobody reads were answered.
type answers struct{ held, refused, other atomic.Int64 }

// unread makes calls of Peek for a message with its body, and reads nothing of the answers. The calls end with the
// context.
func (v *victim) unread(ctx context.Context, cc *grpc.ClientConn, calls int, a *answers, options ...grpc.CallOption) {
	v.Helper()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", guest)
	request := &brokerv1.PeekRequest{Queue: "large", WithBodies: true, Limit: 1}
	for range calls {
		go func() {
			stream, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, brokerv1.Messages_Peek_FullMethodName, options...)
			if err == nil {
				err = errors.Join(stream.SendMsg(request), stream.CloseSend())
			}
			if err == nil {
				var head metadata.MD
				if head, err = stream.Header(); err == nil && len(head) > 0 {
					a.held.Add(1)
					return
				}
				if err == nil {
					err = stream.RecvMsg(&brokerv1.PeekResponse{})
				}
			}
			if status.Code(err) == codes.ResourceExhausted {
				a.refused.Add(1)
			} else {
				a.other.Add(1)
			}
		}()
	}
}

// narrow opens a connection on which a client that does not read gets no more than it must.
func (v *victim) narrow() *grpc.ClientConn {
	v.Helper()
	cc, err := grpc.NewClient(v.node.Client, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(64<<10))
	if err != nil {
		v.Fatal(err)
	}
	v.Cleanup(func() { _ = cc.Close() })
	return cc
}

// outgoing waits until so many bytes of answers are counted, or more.
func (v *victim) outgoing(what string, least, most float64) {
	v.Helper()
	v.until(what, func() error {
		if n := v.figure("quorate_outgoing_bytes"); n < least || n > most {
			return fmt.Errorf("%v bytes, want %v to %v", n, least, most)
		}
		return nil
	})
}

// Clients that read no answers have a node keep no more than their share of limits.outgoing_bytes, compressed or not,
// until they reset the calls or are gone. Whoever reads continues.
func TestAnswersUnread(t *testing.T) {
	const (
		budget, body  = 64 << 20, 4<<20 - 1000
		conns, calls  = 4, 50
		ofUser        = budget / 2
		largestAnswer = 6 << 20
	)
	v := attacked(t, fmt.Sprintf("limits:\n  outgoing_bytes: %d\n  max_message_bytes: %d\n", budget, 4<<20))
	h := v.behave(1000)
	h.more(10)
	if _, err := h.client.DeclareQueue(t.Context(), client.Queue{Name: "large"}); err != nil {
		t.Fatal(err)
	}
	p, err := h.client.Publisher(client.PublisherConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := p.Publish(t.Context(), client.Message{RoutingKey: "large", Body: make([]byte, body)}); err != nil || r.Outcome != client.Confirmed {
		t.Fatal(r, err)
	}
	v.forgetPeak()
	before := v.peak()
	var all answers
	var attackers []*grpc.ClientConn
	for range conns {
		attackers = append(attackers, v.narrow())
		v.unread(t.Context(), attackers[len(attackers)-1], calls, &all)
	}
	v.until("all are answered", func() error {
		if held, refused := all.held.Load(), all.refused.Load(); held+refused != conns*calls {
			return fmt.Errorf("%d hold an answer, %d are refused, %d others", held, refused, all.other.Load())
		}
		return nil
	})
	held := all.held.Load()
	if held == 0 || held*body > ofUser+largestAnswer {
		t.Errorf("%d answers of %d bytes are unread, the user's share is %d", held, body, ofUser)
	}
	if n := v.figure("quorate_outgoing_bytes"); n < float64(held*body) || n > ofUser+largestAnswer {
		t.Errorf("%v bytes are counted, %d are held", n, held*body)
	}
	if n := v.figure("quorate_outgoing_refused_total"); int64(n) != all.refused.Load() {
		t.Errorf("%v refusals are counted, want %d", n, all.refused.Load())
	}
	if grown := v.peak() - before; grown > budget+noise {
		t.Errorf("they took %d KiB", grown>>10)
	} else {
		t.Logf("%d answers are held, and memory grew by %d KiB", held, grown>>10)
	}
	h.more(10)
	for _, cc := range attackers {
		_ = cc.Close()
	}
	v.outgoing("nothing is held for clients that are gone", 0, 0)

	ctx, cancel := context.WithCancel(t.Context())
	cc := v.narrow()
	v.unread(ctx, cc, 1, &all, grpc.UseCompressor(gzip.Name))
	v.outgoing("a client that compresses holds one", body, largestAnswer)
	cancel()
	v.outgoing("nothing is held for calls that are reset", 0, 0)
	ctx = metadata.AppendToOutgoingContext(t.Context(), "authorization", guest)
	for _, options := range [][]grpc.CallOption{nil, {grpc.UseCompressor(gzip.Name)}} {
		r, err := brokerv1.NewMessagesClient(cc).Peek(ctx, &brokerv1.PeekRequest{Queue: "large", WithBodies: true}, append(options, grpc.MaxCallRecvMsgSize(8<<20))...)
		if err != nil || len(r.GetMessages()) != 1 || len(r.GetMessages()[0].GetMessage().GetBody()) != body {
			t.Errorf("%d messages, %v", len(r.GetMessages()), err)
		}
	}
	v.outgoing("nothing is held for answers that were read", 0, 0)
	h.end()
}
