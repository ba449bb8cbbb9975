package peers

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/quorate/quorate/client"
)

// native is this project's cluster, over its own API.
type native struct{ quorate }

func (*native) name() string { return "Quorate gRPC" }

func (*native) about() string {
	return "gRPC, three replicas, each confirm after fsync on two"
}

// session connects to one node.
func (q *native) session(ctx context.Context, i int) (session, error) {
	if i >= len(q.cluster.Nodes) {
		return nil, fmt.Errorf("there is no node %d", i)
	}
	c, err := client.Dial(ctx, client.Config{Addresses: []string{q.cluster.Nodes[i].Client}, FixedAddresses: true})
	if err != nil {
		return nil, err
	}
	return &overGRPC{c: c, ends: make(chan error, 1)}, nil
}

// overGRPC is a session with the project's Go client.
type overGRPC struct {
	c         *client.Client
	consumers []*client.Consumer
	wg        sync.WaitGroup
	ends      chan error // capacity 1: why the first consumer ended
}

func (s *overGRPC) declare(ctx context.Context, queue string) error {
	_, err := s.c.DeclareQueue(ctx, client.Queue{Name: queue})
	return err
}

func (s *overGRPC) remove(ctx context.Context, queue string) error {
	_, err := s.c.DeleteQueue(ctx, client.DeleteQueueRequest{Name: queue})
	return err
}

// grpcPublisher publishes to queues by the default exchange.
type grpcPublisher struct {
	p         *client.Publisher
	confirmed func(int64)
}

func (s *overGRPC) publisher(_ context.Context, window int, confirmed func(int64)) (publisher, error) {
	p, err := s.c.Publisher(client.PublisherConfig{MaxInFlight: window})
	return &grpcPublisher{p: p, confirmed: confirmed}, err
}

// publish copies the body: the client keeps it until the confirm, and the caller writes the next one into it.
func (p *grpcPublisher) publish(ctx context.Context, queue string, body []byte, at int64) error {
	m := client.Message{RoutingKey: queue, Body: append([]byte(nil), body...)}
	return p.p.PublishAsync(ctx, m, func(_ client.Result, err error) {
		if err != nil {
			at = refused
		}
		p.confirmed(at)
	})
}

// consume opens a consumer of each queue and acks each message by itself.
func (s *overGRPC) consume(ctx context.Context, queues []string, prefetch int, received func(int, []byte)) error {
	for i, q := range queues {
		from, err := s.c.Consume(ctx, client.ConsumeConfig{Queue: q, Prefetch: uint32(prefetch)})
		if err != nil {
			return err
		}
		s.consumers = append(s.consumers, from)
		s.wg.Go(func() {
			if err := pass(ctx, from, i, received); !errors.Is(err, client.ErrClosed) {
				select {
				case s.ends <- err:
				default: // another consumer was first
				}
			}
		})
	}
	return nil
}

// pass hands over and acks what a consumer gets until it ends.
func pass(ctx context.Context, from *client.Consumer, i int, received func(int, []byte)) error {
	for {
		d, err := from.Receive(ctx)
		if err != nil {
			return err
		}
		received(i, d.Body)
		if err := d.Ack(); err != nil {
			return err
		}
	}
}

func (s *overGRPC) lost() <-chan error { return s.ends }

// close lets the consumers' last decisions be stored, then ends them and the connection.
func (s *overGRPC) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	var err error
	for _, c := range s.consumers {
		err = errors.Join(err, c.Flush(ctx))
		c.Close()
	}
	s.wg.Wait()
	s.c.Close()
	return err
}
