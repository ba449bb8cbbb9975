package peers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// overAMQP is a session with amqp091-go; it is the same for each broker.
type overAMQP struct {
	conn *amqp.Connection
	ch   *amqp.Channel
	wg   sync.WaitGroup
	ends chan error  // capacity 2: one for the connection, one for the channel
	keep func() bool // ctx no longer cuts the connection
}

// dialTimeout bounds a connection's beginning.
const dialTimeout = 30 * time.Second

// dialAMQP opens a connection with one channel; ctx cuts the connection. It reports the end of the
// channel and of the connection, since a fault may close either.
func dialAMQP(ctx context.Context, address string) (*overAMQP, error) {
	s := &overAMQP{ends: make(chan error, 2)}
	dial := amqp.DefaultDial(dialTimeout)
	var err error
	s.conn, err = amqp.DialConfig("amqp://guest:guest@"+address+"/", amqp.Config{
		Dial: func(network, addr string) (net.Conn, error) {
			nc, err := dial(network, addr)
			if err == nil {
				s.keep = context.AfterFunc(ctx, func() { _ = nc.Close() }) // its users get the error
			}
			return nc, err
		},
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	if s.ch, err = s.conn.Channel(); err != nil {
		return nil, errors.Join(err, s.conn.Close())
	}
	for _, end := range []chan *amqp.Error{
		s.conn.NotifyClose(make(chan *amqp.Error, 1)), s.ch.NotifyClose(make(chan *amqp.Error, 1)),
	} {
		s.wg.Go(func() {
			if e := <-end; e != nil {
				s.ends <- fmt.Errorf("%s: %w", address, e)
			}
		})
	}
	return s, nil
}

func (s *overAMQP) lost() <-chan error { return s.ends }

// close closes the connection and waits for the goroutines that then stop.
func (s *overAMQP) close() error {
	s.keep()
	err := s.conn.Close()
	s.wg.Wait()
	return err
}

func (s *overAMQP) declare(_ context.Context, queue string) error {
	_, err := s.ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
	return err
}

func (s *overAMQP) remove(_ context.Context, queue string) error {
	_, err := s.ch.QueueDelete(queue, false, false, false)
	return err
}

// amqpPublisher finds the times of publishes by their numbers.
type amqpPublisher struct {
	ch   *amqp.Channel
	at   []int64 // by number, modulo its length
	sent uint64
}

// publisher turns on confirms, and reports each with the time of its publish. The window bounds the
// unconfirmed messages, so at needs only one place more.
func (s *overAMQP) publisher(_ context.Context, window int, confirmed func(int64)) (publisher, error) {
	if err := s.ch.Confirm(false); err != nil {
		return nil, err
	}
	p := &amqpPublisher{ch: s.ch, at: make([]int64, window+1)}
	confirms := s.ch.NotifyPublish(make(chan amqp.Confirmation, window))
	s.wg.Go(func() {
		for c := range confirms {
			at := p.at[c.DeliveryTag%uint64(len(p.at))]
			if !c.Ack {
				at = refused
			}
			confirmed(at)
		}
	})
	return p, nil
}

// publish stores the time under the number that the confirm will have.
func (p *amqpPublisher) publish(ctx context.Context, queue string, body []byte, at int64) error {
	p.sent++
	p.at[p.sent%uint64(len(p.at))] = at
	return p.ch.PublishWithContext(ctx, "", queue, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body})
}

// consume acks each message by itself, as the other systems must.
func (s *overAMQP) consume(_ context.Context, queues []string, prefetch int, received func(int, []byte)) error {
	if err := s.ch.Qos(prefetch, 0, false); err != nil {
		return err
	}
	for i, q := range queues {
		deliveries, err := s.ch.Consume(q, "", false, false, false, false, nil)
		if err != nil {
			return err
		}
		s.wg.Go(func() {
			for d := range deliveries {
				received(i, d.Body)
				if d.Ack(false) != nil {
					return // the connection has ended, and its other users report that
				}
			}
		})
	}
	return nil
}
