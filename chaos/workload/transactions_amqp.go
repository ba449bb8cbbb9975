package workload

import (
	"context"
	"errors"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/chaos/history"
)

// queuesRefused is in the reason of a commit that queues refused, as those without a leader do.
const queuesRefused = "were refused by a queue"

// copyOver consumes over AMQP, and in each transaction copies messages into another queue and acks
// them. Some are rolled back first: then nothing of it is there, and the messages are still held.
func (t *transactions) copyOver(ctx context.Context) error {
	c := &copier{transactions: t, consumer: &Consumer{Queue: t.in, Prefetch: transactionPrefetch, amqp: t.dialer(AMQPAll, 0)}}
	c.publisher = t.History.Publisher()
	for ctx.Err() == nil {
		in, err := c.consumer.open(ctx, false)
		if err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // its end is what the caller wants
			}
			return err
		}
		c.in, _ = in.(*amqpInlet)
		c.session++
		c.by = t.History.Consumer()
		t.History.Add(history.Event{Kind: history.Opened, Queue: t.in, Consumer: c.by, Client: string(AMQPAll)})
		err = c.in.conn.Tx()
		for err == nil {
			err = c.transact(ctx)
		}
		t.History.Add(history.Event{Kind: history.Lost, Queue: t.in, Consumer: c.by})
		c.in.close(!errors.Is(err, context.Canceled))
		blamed := (*amqp.Error)(nil)
		if errors.As(err, &blamed) && blamed.Code == amqp.PreconditionFailed && !strings.Contains(blamed.Reason, queuesRefused) {
			return fmt.Errorf("workload: a client that does nothing wrong is refused: %w", err)
		}
	}
	return nil
}

// copier is the consumer of copyOver; session counts its connections.
type copier struct {
	*transactions
	consumer  *Consumer
	in        *amqpInlet
	by        string
	session   int
	publisher int
	id        uint64
	count     int
}

// transact gathers messages and copies them, once or after a rollback.
func (c *copier) transact(ctx context.Context) error {
	settles, err := c.gathered(ctx, c.in, c.by, c.transactions.in, AMQPAll)
	if err != nil || len(settles) == 0 {
		return err
	}
	c.count++
	if c.count%rollBackEvery == 0 {
		if err := c.attempt(settles, false); err != nil {
			return err
		}
	}
	return c.attempt(settles, true)
}

// attempt makes one transaction and ends it. An error leaves its outcome open, and the connection
// is given up.
func (c *copier) attempt(settles []*received, commits bool) error {
	var outputs []output
	for range settles {
		c.id++
		outputs = append(outputs, output{history.Message{Publisher: c.publisher, ID: c.id}, c.out})
	}
	number := c.History.Transaction()
	c.begin(AMQPAll, number, c.session, outputs, settles, c.by, c.transactions.in, history.Ack)
	err := c.fill(outputs, settles)
	as := history.Confirmed
	switch {
	case err == nil && commits:
		err = c.in.conn.TxCommit()
	case err == nil:
		as, err = history.Refused, c.in.conn.TxRollback()
	}
	note := ""
	switch {
	case err != nil && !commits:
		as, note = history.Refused, err.Error() // nothing was committed
	case err != nil:
		as, note = history.Unknown, err.Error()
	}
	c.end(AMQPAll, number, as, note, outputs, settles, c.by, c.transactions.in, history.Ack)
	return err
}

// fill publishes and acks within the transaction.
func (c *copier) fill(outputs []output, settles []*received) error {
	for _, x := range outputs {
		m := post{}
		if err := c.in.conn.PublishWithContext(context.Background(), "", x.queue, false, false, m.amqp(EncodeID(x.Message, bodyBytes))); err != nil {
			return err
		}
	}
	for _, d := range settles {
		if err := c.in.conn.Ack(d.tag, false); err != nil {
			return err
		}
	}
	return nil
}
