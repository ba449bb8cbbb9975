package workload

import (
	"context"
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/chaos/history"
)

// amqpInlet is a consumer over AMQP, on a connection of its own.
type amqpInlet struct {
	conn       *amqpConn
	queue      string
	deliveries <-chan amqp.Delivery
}

// openAMQP connects and consumes.
func (c *Consumer) openAMQP(ctx context.Context) (inlet, error) {
	l, err := c.amqp.connect(ctx)
	if err != nil {
		return nil, err
	}
	in := &amqpInlet{conn: l, queue: c.Queue}
	err = l.Qos(int(c.Prefetch), 0, false)
	if err == nil {
		in.deliveries, err = l.Consume(c.Queue, "", false, false, false, false, nil)
	}
	if err != nil {
		l.cut()
		return nil, err
	}
	return in, nil
}

// receive returns errGone once the connection or the consumer has ended.
func (in *amqpInlet) receive(ctx context.Context) (*received, error) {
	select {
	case d, open := <-in.deliveries:
		if !open {
			return nil, errGone
		}
		e := history.Event{
			Acquired: count(d.Headers, "x-acquired-count"), Count: count(d.Headers, "x-delivery-count"), Again: d.Redelivered, Deaths: deathsOf(d.Headers),
		}
		return &received{Event: e, body: d.Body, tag: d.DeliveryTag}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// settle does not wait; a lost connection is errGone.
func (in *amqpInlet) settle(d *received, o history.Outcome) (held bool, err error) {
	switch o {
	case history.Discard:
		err = in.conn.Reject(d.tag, false)
	case history.Requeue: // a reject says that the delivery failed, a nack does not (D-11)
		err = in.conn.Reject(d.tag, true)
	case history.Return:
		err = in.conn.Nack(d.tag, false, true)
	default:
		err = in.conn.Ack(d.tag, false)
	}
	if err != nil {
		return false, errGone
	}
	return true, nil
}

// flush asks for the queue on the same channel: the answer comes when the channel's settlements are
// committed.
func (in *amqpInlet) flush(context.Context) error {
	if _, err := in.conn.QueueDeclarePassive(in.queue, true, false, false, false, nil); err != nil {
		return errors.Join(errGone, err)
	}
	return nil
}

func (*amqpInlet) reopened() uint64 { return 0 }

func (*amqpInlet) active() bool { return false }

// close is quick also where the connection is lost.
func (in *amqpInlet) close(crash bool) {
	if crash {
		in.conn.cut()
	} else {
		in.conn.leave()
	}
}

// count returns a header that counts; none is 0.
func count(headers amqp.Table, name string) uint32 {
	n, _ := headers[name].(int64)
	return uint32(n)
}

// deathsOf returns what a history keeps of the header x-death (DL-32).
func deathsOf(headers amqp.Table) []history.Death {
	list, _ := headers["x-death"].([]any)
	var out []history.Death
	for _, x := range list {
		t, _ := x.(amqp.Table)
		queue, _ := t["queue"].(string)
		reason, _ := t["reason"].(string)
		n, _ := t["count"].(int64)
		out = append(out, history.Death{Queue: queue, Reason: reason, Count: uint64(n)})
	}
	return out
}
