package amqp_test

import (
	"errors"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
)

// C-9: clients that misspell an argument work as with RabbitMQ, and the argument is counted. If the
// vhost refuses unknown arguments, the close names the argument that was meant.
func TestUnknownArguments(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a node")
	}
	c := testcluster.Start(t, 1)
	cl, err := client.Dial(t.Context(), client.Config{Addresses: c.Addrs()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	testcluster.Poll(t, "a vhost that refuses, which needs the newest version", func() error {
		_, err := cl.PutVHost(t.Context(), client.VHost{Name: "strict", UnknownArguments: client.UnknownRefuse})
		return err
	})
	for vhost, want := range map[string][]string{
		"": {"", "", "", ""},
		"strict": {
			`invalid arg 'x-max-lngth' for queue 'q' in vhost 'strict': 5: is unknown, and the vhost refuses unknown arguments; did you mean x-max-length?`,
			`exchange "x" in vhost "strict": x-foo = 5: is unknown, and the vhost refuses unknown arguments; leave it out`,
			`binding "amq.headers → known" in vhost "strict": x-a = 5: is unknown, and the vhost refuses unknown arguments; ` +
				`x-match "all-with-x" or "any-with-x" compares headers whose names begin with x-`,
			`invalid arg 'x-prioritty' for queue 'known' in vhost 'strict': 5: is unknown, and the vhost refuses unknown arguments; did you mean x-priority?`,
		},
	} {
		conn, err := amqp091.Dial("amqp://guest:guest@" + c.AMQP(0) + "/" + vhost)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		for i, declare := range unknownDeclarations() {
			ch, err := conn.Channel()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ch.QueueDeclare("known", true, false, false, false, nil); err != nil {
				t.Fatal(err)
			}
			err = declare(ch)
			if want[i] == "" {
				if err != nil {
					t.Errorf("%q, %d: %v", vhost, i, err)
				}
				continue
			}
			refused, ok := errors.AsType[*amqp091.Error](err)
			if !ok || refused.Code != amqp091.PreconditionFailed || refused.Reason != "PRECONDITION_FAILED - "+want[i] {
				t.Errorf("%q, %d: %v\nwant %s", vhost, i, err, want[i])
			}
		}
	}
	if got := c.Broker(0).Counters().UnknownArguments; got != 8 {
		t.Errorf("%d are counted, want 8", got)
	}
}

func unknownDeclarations() []func(*amqp091.Channel) error {
	return []func(*amqp091.Channel) error{
		func(ch *amqp091.Channel) error {
			_, err := ch.QueueDeclare("q", true, false, false, false, amqp091.Table{"x-max-lngth": 5})
			return err
		},
		func(ch *amqp091.Channel) error {
			return ch.ExchangeDeclare("x", "fanout", true, false, false, false, amqp091.Table{"x-foo": 5})
		},
		func(ch *amqp091.Channel) error {
			return ch.QueueBind("known", "", "amq.headers", false, amqp091.Table{"x-a": 5})
		},
		func(ch *amqp091.Channel) error {
			_, err := ch.Consume("known", "", false, false, false, false, amqp091.Table{"x-prioritty": 5, "x-stream-offset": "first"})
			return err
		},
	}
}
