package testcluster_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// ratedQueues declares queues that take so many messages a second.
func ratedQueues(t *testing.T, cl *client.Client, rate int, names ...string) {
	t.Helper()
	for _, q := range names {
		if _, err := cl.DeclareQueue(testContext(t), client.Queue{Name: q, Arguments: client.Table{"x-max-message-rate": rate}}); err != nil {
			t.Fatal(err)
		}
	}
}

func channelOf(t *testing.T, conn *amqp091.Connection) *amqp091.Channel {
	t.Helper()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

// transacts publishes so many messages and commits them.
func transacts(t *testing.T, ch *amqp091.Channel, queue string, messages int) error {
	for range messages {
		if err := ch.PublishWithContext(t.Context(), "", queue, false, false, amqp091.Publishing{Body: make([]byte, 100)}); err != nil {
			return err
		}
	}
	return ch.TxCommit()
}

// VH-15: a queue's rate holds back who publishes into it in transactions.
func TestQuotaOfTransactions(t *testing.T) {
	t.Parallel()
	c, cl := quotaCluster(t, []string{"u"}, nil)
	const rate, each, seconds, enough = 20, 10, 4, 0.6
	ratedQueues(t, cl, rate, "rated")
	ch := channelOf(t, dialAMQP(t, c.AMQP(0), "u", amqp091.Config{}))
	if err := ch.Tx(); err != nil {
		t.Fatal(err)
	}
	began, n := time.Now(), 0
	for took := 0.0; took < seconds || float64(n) < rate*enough*took; took = time.Since(began).Seconds() {
		if err := transacts(t, ch, "rated", each); err != nil {
			t.Fatal(err)
		}
		if n += each; took > testTimeout.Seconds() {
			t.Fatalf("%d committed in %.2f s at %d a second", n, took, rate)
		}
	}
	took := time.Since(began).Seconds()
	t.Logf("%d in %.2f s", n, took)
	if most := rate*1.1*took + 2*each; float64(n) > most {
		t.Errorf("%d committed in %.2f s at %d a second", n, took, rate)
	}
}

// VH-14, AM-16: while a channel is held back by a rate, for longer than a client waits for heartbeats, the
// connection stays, and its other channels go on: more than there are methods at a time.
func TestQuotaHoldsOneChannel(t *testing.T) {
	t.Parallel()
	c, cl := quotaCluster(t, []string{"u"}, nil)
	const held, debt = 20, 20
	var names []string
	for i := range held {
		names = append(names, fmt.Sprint("rated", i))
	}
	ratedQueues(t, cl, 2, names...)
	conn := dialAMQP(t, c.AMQP(1), "u", amqp091.Config{Heartbeat: time.Second})
	other := channelOf(t, conn)
	var over atomic.Int64
	ends := make(chan error, held)
	for _, q := range names {
		ch := channelOf(t, conn)
		if err := ch.Tx(); err != nil {
			t.Fatal(err)
		}
		go func() { // all at once: the first one may not be over before the last one has its debt
			err := transacts(t, ch, q, debt)
			if err == nil {
				err = transacts(t, ch, q, 1)
			}
			over.Add(1)
			ends <- err
		}()
	}
	testcluster.Poll(t, "all wait", func() error {
		if _, waiting := c.Broker(1).Limits.Counts(); waiting != held {
			return fmt.Errorf("%d wait", waiting)
		}
		return nil
	})
	if _, err := other.QueueDeclare("quick", true, false, false, false, amqp091.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	if n := over.Load(); n > 0 {
		t.Errorf("%d publishers went on before another channel did", n)
	}
	for range held {
		if err := <-ends; err != nil {
			t.Fatal(err)
		}
	}
	testcluster.Poll(t, "none waits at the end", func() error {
		if _, waiting := c.Broker(1).Limits.Counts(); waiting != 0 {
			return fmt.Errorf("%d wait", waiting)
		}
		return nil
	})
}

// VH-15: a queue's rate holds back publishers whose channel, stream or connection is a new one for each message.
func TestQuotaOfNewChannels(t *testing.T) {
	t.Parallel()
	c, cl := quotaCluster(t, []string{"u"}, nil)
	const rate, seconds = 5, 4
	conn := dialAMQP(t, c.AMQP(0), "u", amqp091.Config{})
	p, _ := asUser(t, c.Addrs()[0], "u")
	overAMQP := func(ch *amqp091.Channel, queue string) error {
		if err := ch.PublishWithContext(t.Context(), "", "elsewhere", false, false, amqp091.Publishing{}); err != nil {
			return err
		}
		if err := ch.PublishWithContext(t.Context(), "", queue, false, false, amqp091.Publishing{Body: []byte("x")}); err != nil {
			return err
		}
		return ch.Close()
	}
	for name, once := range map[string]func(queue string) error{
		"channel": func(queue string) error { return overAMQP(channelOf(t, conn), queue) },
		"connection": func(queue string) error {
			conn := dialAMQP(t, c.AMQP(0), "u", amqp091.Config{})
			if err := overAMQP(channelOf(t, conn), queue); err != nil {
				return err
			}
			return conn.Close()
		},
		"stream": func(queue string) error {
			stream, err := p.Publish(testContext(t))
			if err != nil {
				return err
			}
			for i, key := range []string{"elsewhere", queue} {
				if err := stream.Send(&brokerv1.PublishRequest{Sequence: uint64(i + 1), Message: &brokerv1.Message{RoutingKey: key}}); err != nil {
					return err
				}
				if _, err := stream.Recv(); err != nil {
					return err
				}
			}
			return stream.CloseSend()
		},
	} {
		ratedQueues(t, cl, rate, name)
		began, n := time.Now(), 0
		for ; time.Since(began) < seconds*time.Second; n++ {
			if err := once(name); err != nil {
				t.Fatal(name, err)
			}
		}
		took := time.Since(began).Seconds()
		if most := rate*1.1*took + 3; float64(n) > most { // a node learns of the rate with the first message
			t.Errorf("%d messages, each by a %s of its own, in %.2f s at %d a second", n, name, took, rate)
		}
		t.Logf("%s: %d in %.2f s", name, n, took)
	}
}

// VH-14: who is held back for good is cut off, and closes, like others; nothing is left of it.
func TestQuotaHeldAtEnd(t *testing.T) {
	t.Parallel()
	c, cl := quotaCluster(t, []string{"u"}, nil)
	ratedQueues(t, cl, 0, "never")
	for _, how := range []string{"cut off", "closed by an operator"} {
		conn := dialAMQP(t, c.AMQP(2), "u", amqp091.Config{Heartbeat: time.Second})
		ch := channelOf(t, conn)
		for range 3 {
			if err := ch.PublishWithContext(t.Context(), "", "never", false, false, amqp091.Publishing{Body: []byte("x")}); err != nil {
				t.Fatal(err)
			}
		}
		waits := func(want int64) func() error {
			return func() error {
				if _, n := c.Broker(2).Limits.Counts(); n != want {
					return fmt.Errorf("%d wait, want %d", n, want)
				}
				return nil
			}
		}
		testcluster.Poll(t, "it waits", waits(1))
		if how == "cut off" {
			_ = conn.CloseDeadline(time.Now())
		} else {
			var all []client.ConnectionInfo
			testcluster.Poll(t, "it is shown", func() (err error) {
				all, err = client.Collect(cl.Connections(testContext(t), client.ListConnectionsRequest{}))
				for _, x := range all {
					if x.User == "u" && x.State != "flow" {
						return fmt.Errorf("state %q", x.State)
					}
				}
				return err
			})
			for _, x := range all {
				if x.User == "u" {
					if err := cl.CloseConnection(testContext(t), client.CloseConnectionRequest{Connection: x.ID}); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		testcluster.Poll(t, how+": it waits no more", waits(0))
	}
}
