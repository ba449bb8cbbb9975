package amqp_test

import (
	"context"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/internal/testcluster"
)

// heldBack is the x-delay of the test's messages.
const heldBack = 2500 * time.Millisecond

// DLY-2: programs written for RabbitMQ's plugin for delayed messages work unchanged.
func TestDelayedExchange(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	conn, err := amqp091.Dial("amqp://guest:guest@" + testcluster.Start(t, 1).AMQP(0) + "/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	channel := func() *amqp091.Channel {
		ch, err := conn.Channel()
		if err != nil {
			t.Fatal(err)
		}
		return ch
	}
	t.Run("messages wait", func(t *testing.T) { testDelayedMessages(t, channel()) })
	for _, x := range []struct {
		name, exchange, kind string
		args                 amqp091.Table
		want                 string
	}{
		{"again", "later", "x-delayed-message", amqp091.Table{"x-delayed-type": "topic"}, ""},
		{"as what it is", "later", "topic", amqp091.Table{"x-delayed-type": "topic"}, ""},
		{"without delays", "later", "topic", nil, "x-delayed-type"},
		{"of another type", "later", "x-delayed-message", amqp091.Table{"x-delayed-type": "direct"}, "type"},
		{"where one without delays is", "amq.topic", "x-delayed-message", amqp091.Table{"x-delayed-type": "topic"}, "x-delayed-type"},
		{"of no type", "other", "x-delayed-message", nil, "x-delayed-type"},
		{"of an odd type", "other", "x-delayed-message", amqp091.Table{"x-delayed-type": "x-delayed-message"}, "want one of [direct"},
		{"a type of a number", "other", "x-delayed-message", amqp091.Table{"x-delayed-type": 5}, "want one of [direct"},
		{"another plugin's type", "other", "x-recent-history", nil, "unknown exchange type"},
		{"another plugin's type", "other", "x-jms-topic", nil, "unknown exchange type"},
	} {
		t.Run(x.name, func(t *testing.T) {
			err := channel().ExchangeDeclare(x.exchange, x.kind, true, false, false, false, x.args)
			if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
				t.Errorf("%v, want %q", err, x.want)
			}
		})
	}
}

// testDelayedMessages leaves the exchange "later" behind; TestDelayedExchange uses it.
func testDelayedMessages(t *testing.T, ch *amqp091.Channel) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(ch.Confirm(false))
	must(ch.ExchangeDeclare("later", "x-delayed-message", true, false, false, false, amqp091.Table{"x-delayed-type": "topic"}))
	_, err := ch.QueueDeclare("due", true, false, false, false, nil)
	must(err)
	must(ch.QueueBind("due", "a.#", "later", false, nil))
	began := time.Now()
	publish := func(exchange, body string, headers amqp091.Table) {
		t.Helper()
		d, err := ch.PublishWithDeferredConfirmWithContext(ctx, exchange, "a.b", true, false, amqp091.Publishing{Body: []byte(body), Headers: headers})
		must(err)
		if ok, err := d.WaitContext(ctx); !ok || err != nil {
			t.Fatalf("%s: confirmed %v, %v", body, ok, err)
		}
	}
	publish("later", "second", amqp091.Table{"x-delay": int32(heldBack.Milliseconds()), "kept": "so"})
	publish("later", "third", amqp091.Table{"x-delay": "5000"})
	publish("later", "first", amqp091.Table{"x-delay": int64(-5)})
	must(ch.QueueBind("due", "a.#", "amq.topic", false, nil))
	publish("amq.topic", "at once", amqp091.Table{"x-delay": int32(60_000)})
	ds, err := ch.Consume("due", "", true, false, false, false, nil)
	must(err)
	for _, want := range []struct {
		body  string
		after time.Duration
		delay any
	}{
		{"first", 0, int64(-5)},
		{"at once", 0, int32(60_000)},
		{"second", heldBack, int32(-heldBack.Milliseconds())},
		{"third", 2 * heldBack, int32(-5000)},
	} {
		select {
		case d := <-ds:
			if waited := time.Since(began); string(d.Body) != want.body || waited < want.after || d.Headers["x-delay"] != want.delay {
				t.Errorf("%s after %v with %v, want %+v", d.Body, waited, d.Headers, want)
			}
		case <-ctx.Done():
			t.Fatalf("%s does not come", want.body)
		}
	}
}
