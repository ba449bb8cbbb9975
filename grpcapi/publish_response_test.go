package grpcapi

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/internal/testnode"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// sentResults stands for a stream, and keeps the sequences of the results that are sent.
type sentResults struct {
	grpc.BidiStreamingServer[brokerv1.PublishRequest, brokerv1.PublishResponse]
	ctx  context.Context //nolint:containedctx // a stream has one
	sent []uint64
}

func (s *sentResults) Context() context.Context { return s.ctx }

func (s *sentResults) Send(r *brokerv1.PublishResponse) error {
	s.sent = append(s.sent, r.GetSequence())
	return nil
}

// PUB-6, EX-16: a producer's message that was not taken gets no result. The stream takes nothing behind it, sends the
// results that are there, and ends without waiting for others; the client sends the rest again.
func TestNotTakenEndsStream(t *testing.T) {
	b := brokerOf(t, testnode.Waiting(t), false)
	stream := &sentResults{ctx: context.WithValue(t.Context(), lifeKey{}, t.Context())}
	p := &publishStream{
		s: &Server{b: b}, stream: stream, news: make(chan struct{}, 1), room: make(chan struct{}, 1), read: make(chan error, 1),
	}
	for range 3 {
		if !p.take() {
			t.Fatal("the stream takes no message")
		}
	}
	p.result(broker.Result{Token: 1, Kind: broker.Confirmed})
	p.result(broker.Result{Token: 3, Kind: broker.Rejected, NotTaken: true, Rejections: []broker.Rejection{{Cause: broker.CauseUnknown, Reason: "its window is full"}}})
	if p.take() {
		t.Error("the stream takes a message behind one that was not taken")
	}
	p.read <- nil // the reader ends
	err := p.write()
	var why *failure.Error
	if !errors.As(err, &why) || why.Class != failure.Unavailable || why.RetryAfter == 0 || why.Value != "3" {
		t.Errorf("the stream ends with %v", err)
	}
	if len(stream.sent) != 1 || stream.sent[0] != 1 {
		t.Errorf("sent the results of %d, want that of 1", stream.sent)
	}
}
