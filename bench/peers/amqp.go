package peers

import (
	"context"
	"errors"
	"fmt"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// overAMQP is a session with amqp091-go; it is the same for each broker.
type overAMQP struct {
	conn *amqp.Connection
	ch   *amqp.Channel
	wg   sync.WaitGroup
}

func dialAMQP(address string) (*overAMQP, error) {
	conn, err := amqp.Dial("amqp://guest:guest@" + address + "/")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	ch, err := conn.Channel()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &overAMQP{conn: conn, ch: ch}, nil
}

func (s *overAMQP) close() error {
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

// amqpPublisher gives the times of publishes back by their numbers.
type amqpPublisher struct {
	ch    *amqp.Channel
	at    []int64 // by number, modulo its length
	sent  uint64
	ended chan *amqp.Error
}

func (s *overAMQP) publisher(_ context.Context, window int, confirmed func(int64)) (publisher, error) {
	if err := s.ch.Confirm(false); err != nil {
		return nil, err
	}
	p := &amqpPublisher{ch: s.ch, at: make([]int64, window+1), ended: s.ch.NotifyClose(make(chan *amqp.Error, 1))}
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

func (p *amqpPublisher) publish(ctx context.Context, queue string, body []byte, at int64) error {
	p.sent++
	p.at[p.sent%uint64(len(p.at))] = at
	return p.ch.PublishWithContext(ctx, "", queue, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body})
}

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
					return // the connection is gone, which its other users notice
				}
			}
		})
	}
	return nil
}
