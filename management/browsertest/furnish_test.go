package browsertest

import (
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/client"
)

// furnish makes something of every kind that the page shows.
func (s *served) furnish(c *client.Client) {
	t := s.t
	t.Helper()
	declare(t, c, "orders", "orders.dead", "empty")
	_, declared := c.DeclareExchange(t.Context(), client.Exchange{Name: "shop", Type: "topic"})
	_, put := c.PutPolicy(t.Context(), client.Policy{Name: "dead-letters", Pattern: "^orders$", ApplyTo: "queues", Definition: client.Table{
		"dead-letter-exchange": "", "dead-letter-routing-key": "orders.dead",
	}})
	_, bound := c.PutPolicy(t.Context(), client.Policy{Name: "bound", Operator: true, Pattern: ".*", ApplyTo: "queues", Definition: client.Table{"max-length": int64(100000)}})
	for _, err := range []error{
		declared, put, bound,
		c.Bind(t.Context(), client.Binding{Source: "shop", Destination: "orders", RoutingKey: "order.#"}),
		c.SetVHostLimits(t.Context(), client.SetVHostLimitsRequest{Name: "/", Limits: client.VHostLimits{MaxQueues: new(int64(1000))}}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s.addUser("watcher", "monitoring")
	_, allowed := c.SetPermission(t.Context(), client.Permission{User: "watcher", VHost: "/", Configure: "^$", Write: "^shop$", Read: ".*"})
	_, topics := c.SetTopicPermission(t.Context(), client.TopicPermission{User: "watcher", VHost: "/", Exchange: "shop", Write: "^order", Read: ".*"})
	if allowed != nil || topics != nil {
		t.Fatal(allowed, topics)
	}
	publish(t, c, 20, client.Message{Exchange: "shop", RoutingKey: "order.new", Body: []byte(`{"order": 1}`), Properties: client.Properties{
		ContentType: "application/json", MessageID: "m", Headers: client.Table{"customer": "Ann"},
	}})
	s.consume("orders")
	if _, err := c.RebalanceQueues(t.Context(), client.RebalanceQueuesRequest{}); err != nil { // for a list of operations
		t.Fatal(err)
	}
}

// publish publishes messages and waits until all are confirmed.
func publish(t testing.TB, c *client.Client, n int, m client.Message) {
	t.Helper()
	p, err := c.Publisher(client.PublisherConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := p.PublishAsync(t.Context(), m, func(r client.Result, err error) {
			if err != nil || r.Outcome != client.Confirmed {
				t.Errorf("a message was not confirmed: %+v, %v", r, err)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// consume connects an AMQP client that holds a message and refuses another.
func (s *served) consume(queue string) {
	s.t.Helper()
	conn, err := amqp091.DialConfig("amqp://guest:guest@"+s.cluster.AMQP(0)+"/", amqp091.Config{Properties: amqp091.Table{"connection_name": "worker"}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			s.t.Log(err)
		}
	})
	ch, err := conn.Channel()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := ch.Qos(2, 0, false); err != nil {
		s.t.Fatal(err)
	}
	got, err := ch.ConsumeWithContext(s.t.Context(), queue, "worker", false, false, false, false, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if d := <-got; d.Nack(false, false) != nil {
		s.t.Error("a message was not refused")
	}
}
