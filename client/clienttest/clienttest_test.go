package clienttest_test

import (
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/clienttest"
)

// A program's test declares, publishes and consumes, and what it stored outlives a crash of any
// node.
func TestStart(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	c := clienttest.Start(t, 3)
	cl := c.Client()
	if _, err := cl.DeclareQueue(t.Context(), client.Queue{Name: "orders"}); err != nil {
		t.Fatal(err)
	}
	if _, err := cl.PublishOne(t.Context(), client.Message{RoutingKey: "orders", Body: []byte("one")}); err != nil {
		t.Fatal(err)
	}
	c.Kill(0)
	s, err := cl.Consume(t.Context(), client.ConsumeConfig{Queue: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	d, err := s.Receive(t.Context())
	if err != nil || string(d.Body) != "one" {
		t.Fatalf("%v, %v", d, err)
	}
	if err := d.Ack(); err != nil {
		t.Error(err)
	}
	c.Restart(0)
	other, err := amqp091.Dial(c.AMQP(0))
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}
