package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// publish publishes and, in confirm mode, waits for the confirm. Brokers send basic.return before
// basic.ack, so a return has come by then.
func (ch *channel) publish(c *command) (object, error) {
	m, err := publishing(c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience())
	defer cancel()
	d, err := ch.PublishWithDeferredConfirmWithContext(ctx, c.X, c.Key, c.Mandatory, c.Do == "publish-immediate", m)
	if err != nil || d == nil {
		return object{}, err
	}
	select {
	case <-d.Done():
	case <-ch.gone.done:
	case <-ctx.Done():
		return nil, errors.New("no confirm")
	}
	if ch.IsClosed() {
		return nil, amqp.ErrClosed
	}
	answer := object{"confirm": "nack"}
	if d.Acked() {
		answer["confirm"] = "ack"
	}
	select {
	case r := <-ch.returns:
		answer["returned"] = []any{returned(&r)}
	default:
	}
	return answer, nil
}

// returned waits for returned messages, one at least.
func (ch *channel) returned(c *command) (object, error) {
	var all []any
	for len(all) < max(c.N, 1) {
		select {
		case r := <-ch.returns:
			all = append(all, returned(&r))
		case <-time.After(patience()):
			return nil, fmt.Errorf("%d messages came back", len(all))
		}
	}
	return object{"returned": all}, nil
}

// flood publishes n messages with up to 100 unconfirmed ones, and waits for all confirms.
func (ch *channel) flood(c *command) (object, error) {
	var open []*amqp.DeferredConfirmation
	acked := 0
	ctx, cancel := context.WithTimeout(context.Background(), patience())
	defer cancel()
	for i := range c.N {
		d, err := ch.PublishWithDeferredConfirmWithContext(ctx, c.X, c.Key, false, false, amqp.Publishing{Body: fmt.Appendf(nil, "%d", i)})
		if err != nil {
			return nil, err
		}
		open = append(open, d)
		for len(open) > 100 || i == c.N-1 && len(open) > 0 {
			ok, err := open[0].WaitContext(ctx)
			if err != nil {
				return nil, err
			}
			if ok {
				acked++
			}
			open = open[1:]
		}
	}
	return object{"acked": acked}, nil
}
