package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// exclusiveGrace is how long a consumer that has lost its stream tries again when it is refused as
// exclusive, because its own earlier stream may still count. After that there must be another
// exclusive consumer.
const exclusiveGrace = 15 * time.Second

// consumeStream is the stream of one consumer on one node.
type consumeStream = grpc.BidiStreamingClient[brokerv1.ConsumeRequest, brokerv1.ConsumeResponse]

// run keeps a stream open until the consumer ends.
func (s *Consumer) run() {
	defer close(s.finished)
	defer s.stop()
	var lost time.Time // zero: never opened
	login := grace{c: s.c}
	for retry := (backoff{}); ; {
		began := time.Now()
		opened := false
		err := s.c.try(s.ctx, func(ctx context.Context, n *node) error { return s.open(ctx, n, &opened) })
		s.detach()
		if opened {
			s.c.loggedIn.Store(true)
			login.worked()
			lost = time.Now()
			if lost.Sub(began) > maxRetry {
				retry = backoff{}
			}
		}
		if s.ctx.Err() != nil {
			s.end(ErrClosed)
		} else if !s.again(err, lost) && !login.forgives(err) {
			s.end(final(err))
		}
		if err := s.failure(); err != nil {
			select {
			case s.opened <- err:
			default:
			}
			return
		}
		s.c.cfg.Logger.Debug("consume stream is lost", "queue", s.cfg.Queue, "error", err)
		if !retry.wait(s.ctx, askedToWait(err)) {
			s.end(ErrClosed)
		}
	}
}

// again reports whether another attempt to open can help.
func (s *Consumer) again(err error, lost time.Time) bool {
	s.mu.Lock()
	cancelled := s.cancelled
	s.mu.Unlock()
	if cancelled || errors.Is(err, ErrCancelled) {
		return false
	}
	if status.Code(err) == codes.PermissionDenied && s.cfg.Exclusive && !lost.IsZero() {
		return time.Since(lost) < exclusiveGrace
	}
	return passing(err) || askedToWait(err) > 0 || errors.Is(err, io.EOF)
}

// final converts the error with which the consumer ends.
func final(err error) error {
	if errors.Is(err, ErrCancelled) {
		return err
	}
	return fromGRPC(err)
}

// open consumes over one stream until the stream breaks.
func (s *Consumer) open(ctx context.Context, n *node, opened *bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := n.broker.Consume(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(&brokerv1.ConsumeRequest{Kind: &brokerv1.ConsumeRequest_Open{Open: &brokerv1.ConsumeOpen{
		Vhost: s.cfg.VHost, Queue: s.cfg.Queue, Prefetch: s.cfg.Prefetch, AutoAck: s.cfg.AutoAck,
		Priority: s.cfg.Priority, Exclusive: s.cfg.Exclusive, Tag: s.cfg.Tag,
		ConsumerTimeoutMs: s.cfg.timeout(),
	}}}); err != nil {
		return broken(stream, err)
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if first.GetOpened() == nil {
		return fmt.Errorf("client: broker began a consumer of queue %q with %T", s.cfg.Queue, first.GetKind())
	}
	*opened = true
	number := s.attach(first.GetOpened().GetSettleToken())
	select {
	case s.opened <- nil:
	default:
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		s.send(ctx, stream)
	}()
	err = s.receive(stream, number)
	cancel()
	<-sent
	return err
}

// attach begins a stream: nothing is unsettled, earlier deliveries are stale.
func (s *Consumer) attach(token string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastStream++
	s.stream, s.token = s.lastStream, token
	s.unsettled, s.decided, s.wantFlush = map[uint64]bool{}, nil, false
	s.revoked, s.extend = map[uint64]bool{}, nil
	return s.stream
}

// detach ends a stream: its deliveries become stale, and decisions that no flush has confirmed
// count as lost, which the next Flush reports.
func (s *Consumer) detach() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream, s.unsettled, s.decided = 0, nil, nil
	s.activity = Shared
	s.lost = s.lost || s.decisions > s.certain
	s.certain = s.decisions
	s.notify()
}

// receive processes what the broker sends until the stream breaks.
func (s *Consumer) receive(stream consumeStream, number uint64) error {
	for {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		switch k := r.GetKind().(type) {
		case *brokerv1.ConsumeResponse_Deliveries:
			if err := s.deliver(k.Deliveries.GetDeliveries(), number); err != nil {
				return err
			}
		case *brokerv1.ConsumeResponse_Settled:
			s.mu.Lock()
			if k.Settled.GetRequest() == s.batch {
				s.certain = max(s.certain, s.flushed)
			}
			s.notify()
			s.mu.Unlock()
		case *brokerv1.ConsumeResponse_Cancelled:
			if s.asked() {
				continue // settling continues
			}
			return fmt.Errorf("%w: %s", ErrCancelled, k.Cancelled.GetCause())
		case *brokerv1.ConsumeResponse_Revoked:
			s.revoke(k.Revoked.GetDeliveryIds())
		case *brokerv1.ConsumeResponse_Activity:
			if k.Activity.GetActive() {
				s.setActivity(Active)
			} else {
				s.setActivity(Waiting)
			}
		default: // a notice from a newer broker
		}
	}
}

// asked reports whether Cancel caused the end of delivery, and completes Cancel.
func (s *Consumer) asked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancelled {
		s.gone = true
		s.notify()
	}
	return s.cancelled
}

// deliver notes the deliveries before it hands them over, so that a decision always finds its
// delivery. It waits while nobody receives; credit bounds what comes.
func (s *Consumer) deliver(batch []*brokerv1.Delivery, number uint64) error {
	if !s.cfg.AutoAck {
		s.mu.Lock()
		for _, d := range batch {
			s.unsettled[d.GetDeliveryId()] = true
		}
		s.mu.Unlock()
	}
	for _, p := range batch {
		d := &Delivery{Received: receivedFromProto(p), consumer: s, stream: number, id: p.GetDeliveryId()}
		select {
		case s.arrived <- d:
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
	return nil
}

// send sends gathered decisions until the stream ends.
func (s *Consumer) send(ctx context.Context, stream consumeStream) {
	for {
		for _, r := range s.take() {
			if stream.Send(r) != nil {
				return // the receiver has the reason
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
	}
}

// take packs all decisions into as few requests as their order allows.
func (s *Consumer) take() []*brokerv1.ConsumeRequest {
	s.mu.Lock()
	decided, cancel := s.decided, s.cancel
	extend := s.extend
	s.decided, s.cancel, s.extend = nil, nil, nil
	flush, number := s.wantFlush, s.batch
	s.wantFlush = false
	if flush {
		s.flushed = s.decisions
	}
	if cancel != nil {
		s.cancelled = true
	}
	s.mu.Unlock()

	out := make([]*brokerv1.ConsumeRequest, 0, len(extend))
	for _, e := range extend {
		out = append(out, &brokerv1.ConsumeRequest{Kind: &brokerv1.ConsumeRequest_ExtendAckDeadline{ExtendAckDeadline: e}})
	}
	var last *brokerv1.Settlement
	for i, d := range decided {
		joins := i > 0 && last != nil && d.annotations == nil && last.GetAnnotations() == nil &&
			last.GetOutcome() == d.Kind.proto() && last.GetFailed() == d.Failed &&
			last.GetDeliverAtMs() == atMs(d.DeliverAt) && last.GetDelayMs() == delayMs(d.DeliverAt, d.Delay) && len(last.GetDeliveryIds()) < maxSettlementIDs
		if !joins {
			last = &brokerv1.Settlement{
				Outcome: d.Kind.proto(), Failed: d.Failed, Annotations: d.annotations,
				DeliverAtMs: atMs(d.DeliverAt), DelayMs: delayMs(d.DeliverAt, d.Delay),
			}
			out = append(out, &brokerv1.ConsumeRequest{Kind: &brokerv1.ConsumeRequest_Settlement{Settlement: last}})
		}
		last.DeliveryIds = append(last.DeliveryIds, d.id)
	}
	if flush {
		if last == nil { // all decisions are sent already: request the flush alone
			last = &brokerv1.Settlement{Outcome: brokerv1.Outcome_OUTCOME_ACK}
			out = append(out, &brokerv1.ConsumeRequest{Kind: &brokerv1.ConsumeRequest_Settlement{Settlement: last}})
		}
		last.Request = number
	}
	if cancel == nil {
		return out
	}
	return append(out, &brokerv1.ConsumeRequest{Kind: &brokerv1.ConsumeRequest_Cancel{Cancel: cancel}})
}
