package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// publishStream is the stream of one publisher on one node.
type publishStream = grpc.BidiStreamingClient[brokerv1.PublishRequest, brokerv1.PublishResponse]

// run keeps a stream open until the publisher ends.
func (p *Publisher) run() {
	defer close(p.finished)
	defer p.fail()
	login := grace{c: p.c}
	defer p.forget()
	for retry := (backoff{}); ; {
		before := p.answered()
		err := p.c.try(p.ctx, p.stream)
		if p.ctx.Err() != nil {
			p.end(ErrClosed)
			return
		}
		if p.answered() > before {
			login.worked()
		}
		least := askedToWait(err)
		if least == 0 && !passing(err) && !errors.Is(err, io.EOF) && !login.forgives(err) {
			p.end(fmt.Errorf("client: publisher ended: %w", fromGRPC(err)))
			return
		}
		p.c.cfg.Logger.Debug("publish stream is lost", "error", err)
		if p.answered() > before {
			retry = backoff{} // the stream worked: the next retry may be quick again
		}
		if !retry.wait(p.ctx, least) {
			p.end(ErrClosed)
			return
		}
	}
}

// forget removes the publisher from those that the client guards.
func (p *Publisher) forget() {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	delete(p.c.publishers, p)
}

// stream publishes over one stream until it breaks.
func (p *Publisher) stream(ctx context.Context, n *node) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := n.broker.Publish(ctx)
	if err != nil {
		return err
	}
	if err := s.Send(&brokerv1.PublishRequest{Producer: p.producer, Batches: true}); err != nil {
		return broken(s, err)
	}
	p.rewind(n)
	together := &atomic.Uint32{} // messages that a request may carry; 0: the node has not announced it
	received := make(chan error, 1)
	go func() {
		var dones []func(Result, error)
		for {
			r, err := s.Recv()
			if err != nil {
				received <- err
				return
			}
			if !p.c.loggedIn.Load() {
				p.c.loggedIn.Store(true)
			}
			if most := r.GetMaxBatch(); most > 0 {
				together.Store(most)
			}
			dones = p.answer(r, dones)
		}
	}()
	return p.send(cancel, s, together, received)
}

// send sends unsent messages in order until the stream breaks. It returns after the receiver has
// ended.
func (p *Publisher) send(cancel func(), s publishStream, together *atomic.Uint32, received chan error) error {
	batch := make([]*brokerv1.PublishRequest, 0, sendBatch)
	var joined brokerv1.PublishRequest
	for {
		batch = p.unsent(batch[:0])
		for rest := batch; len(rest) > 0; {
			n := fitting(rest, int(together.Load()))
			r := rest[0]
			if n > 1 {
				joined.Sequence, joined.Message, joined.More = r.GetSequence(), r.GetMessage(), rest[1:n]
				r = &joined
			}
			rest = rest[n:]
			if err := s.Send(r); err != nil {
				if !errors.Is(err, io.EOF) {
					cancel()
					ended := <-received
					p.c.cfg.Logger.Debug("publish stream cannot send", "error", err, "stream_error", ended)
					return err
				}
				return <-received // the receiver has the reason
			}
		}
		if len(batch) > 0 {
			continue
		}
		select {
		case err := <-received:
			return err
		case <-p.wake:
		}
	}
}

// fitting returns how many of the next messages go out in one request, at most most. A batch stays well below the size
// from which a node counts the bytes of a request, so that a message that has to wait does not keep others waiting.
func fitting(next []*brokerv1.PublishRequest, most int) int {
	if most < 2 || len(next) < 2 {
		return 1
	}
	n, size := 1, proto.Size(next[0])
	for ; n < min(most, len(next)) && size < maxJoinedBytes; n++ {
		if size += proto.Size(next[n]); size > maxJoinedBytes {
			break
		}
	}
	return n
}

// broken returns why a stream broke: Send itself only says io.EOF.
func broken[Q, R any](s grpc.BidiStreamingClient[Q, R], sent error) error {
	if !errors.Is(sent, io.EOF) {
		return sent
	}
	if _, err := s.Recv(); err != nil {
		return err
	}
	return sent
}
