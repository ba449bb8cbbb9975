package cases

import (
	"errors"
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// channel opens a channel of AMQP 0-9-1 on a connection of its own: what is refused with 540
// ends the connection.
func (k *kase) channel() *amqp.Channel {
	k.Helper()
	c, err := amqp.Dial("amqp://guest:guest@" + k.cluster.Nodes[0].AMQP + "/")
	k.must(err)
	k.Cleanup(func() { _ = c.Close() }) // it may have been ended
	ch, err := c.Channel()
	k.must(err)
	return ch
}

// code fails unless the error has this AMQP code.
func (k *kase) code(what string, err error, want int) {
	k.Helper()
	var e *amqp.Error
	if !errors.As(err, &e) || e.Code != want || e.Reason == "" {
		k.Errorf("%s: error %v, want code %d", what, err, want)
	}
}

// put publishes a message and does not wait for anything.
func (k *kase) put(ch *amqp.Channel, key, body string) {
	k.Helper()
	k.must(ch.PublishWithContext(k.ctx, "", key, false, false, amqp.Publishing{Body: []byte(body)}))
}

// PUB-9.
func TestT061(t *testing.T) {
	k := begin(t, "AMQP 0-9-1: transactions commit or roll back, and exclude confirms")
	ch := k.channel()
	k.must(ch.Confirm(false))
	k.code("tx.select with confirms", ch.Tx(), amqp.PreconditionFailed)
	ch = k.channel()
	k.must(ch.Tx())
	k.code("confirm.select in a transaction", ch.Confirm(false), amqp.PreconditionFailed)

	q := k.queue("q", nil)
	ch = k.channel()
	k.must(ch.Tx())
	k.put(ch, q, "1")
	_, err := ch.QueueDeclarePassive(q, true, false, false, false, nil) // it has been read
	k.must(err)
	k.empty(q)
	k.must(ch.TxCommit())
	k.ready(q, 1)
	k.put(ch, q, "2")
	k.must(ch.TxRollback())
	m, ok, err := ch.Get(q, false)
	k.must(err)
	k.same("first", fmt.Sprint(ok, " ", string(m.Body)), "true 1")
	k.must(m.Ack(false))
	k.must(ch.TxRollback())
	k.same("unacknowledged", k.stats(q).MessagesUnacknowledged, 1)
	k.must(m.Ack(false))
	k.must(ch.TxCommit())
	k.eventually("the ack counts", func() error {
		if n := k.stats(q).Messages; n != 0 {
			return fmt.Errorf("%d messages", n)
		}
		return nil
	})
}

// DEL-7, PUB-1.
func TestT126(t *testing.T) {
	k := begin(t, "AMQP 0-9-1: recover returns without failure; what is not implemented is 540")
	q := k.queue("q", nil)
	k.publish(q, "m")
	ch := k.channel()
	first, ok, err := ch.Get(q, false)
	k.must(err)
	k.same("first", fmt.Sprint(ok, " ", first.Redelivered), "true false")
	k.must(ch.Recover(true)) //nolint:staticcheck // what is deprecated must continue working
	var again amqp.Delivery
	k.eventually("it comes again", func() (err error) {
		if again, ok, err = ch.Get(q, false); err == nil && !ok {
			err = errNotYet
		}
		return err
	})
	_, failed := again.Headers["x-delivery-count"]
	k.same("again", fmt.Sprint(again.Redelivered, " ", again.Headers["x-acquired-count"], " ", failed), "true 1 false")

	k.code("recover without requeue", k.channel().Recover(false), amqp.NotImplemented) //nolint:staticcheck // as above
	k.code("prefetch_size", k.channel().Qos(1, 5, false), amqp.NotImplemented)
	ch = k.channel()
	ended := ch.NotifyClose(make(chan *amqp.Error, 1))
	k.must(ch.PublishWithContext(k.ctx, "", q, false, true, amqp.Publishing{}))
	select {
	case e := <-ended:
		k.code("immediate", e, amqp.NotImplemented)
	case <-k.ctx.Done():
		k.Error("a publish with immediate is taken")
	}
}

// DEL-3.
func TestT128(t *testing.T) {
	k := begin(t, "AMQP 0-9-1: a global prefetch counts for each consumer")
	q := k.queue("q", nil)
	k.publish(q, numbers(1, 12)...)
	ch := k.channel()
	k.must(ch.Qos(5, 0, true))
	for _, tag := range []string{"a", "b"} {
		deliveries, err := ch.Consume(q, tag, false, false, false, false, nil)
		k.must(err)
		for n := range 5 {
			select {
			case <-deliveries:
			case <-k.ctx.Done():
				k.Fatalf("consumer %s gets %d deliveries, want 5", tag, n)
			}
		}
		select {
		case m := <-deliveries:
			k.Errorf("consumer %s gets a sixth: %s", tag, m.Body)
		case <-time.After(stays):
		}
	}
	k.same("left", fmt.Sprint(k.stats(q).MessagesReady, " ", k.stats(q).MessagesUnacknowledged), "2 10")
}
