package tracing_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/collector"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/tracing"
)

const (
	publisherTrace = "0af7651916cd43dd8448eb211c80319c"
	publisherSpan  = "b7ad6b7169203331"
	traceparent    = "00-" + publisherTrace + "-" + publisherSpan + "-01"
)

// tracer returns a tracer that exports to an address.
func tracer(t *testing.T, node, addr string, spans int) *tracing.Tracer {
	t.Helper()
	to, err := otlptracegrpc.New(t.Context(), otlptracegrpc.WithEndpoint(addr), otlptracegrpc.WithInsecure())
	if err != nil {
		t.Fatal(err)
	}
	c := tracing.Config{Exporter: to, Node: node, Cluster: "test", Version: "1", QueueSpans: spans}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	x, err := tracing.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// traced is three nodes whose spans a collector gets.
func traced(t *testing.T) (*testcluster.Cluster, *collector.Collector) {
	t.Helper()
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20") // milliseconds; a test need not wait for 5 s
	c := collector.Start(t)
	var open []*tracing.Tracer
	t.Cleanup(func() { // after the nodes have stopped
		for _, x := range open {
			if err := x.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	nodes := testcluster.StartTraced(t, 3, func(node string) *tracing.Tracer {
		open = append(open, tracer(t, node, c.Addr, 0))
		return open[len(open)-1]
	})
	return nodes, c
}

func channel(t *testing.T, addr string) *amqp091.Channel {
	t.Helper()
	conn, err := amqp091.Dial("amqp://guest:guest@" + addr + "/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	return ch
}

// declare makes a queue whose dead letters go to another one.
func declare(t *testing.T, ch *amqp091.Channel) {
	t.Helper()
	for name, args := range map[string]amqp091.Table{
		"dead":  {"x-queue-type": "quorum"},
		"plain": {"x-queue-type": "quorum"},
		"work": {
			"x-queue-type": "quorum", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-dead-letter-strategy": "at-least-once",
			"x-overflow": "reject-publish",
		},
	} {
		if _, err := ch.QueueDeclare(name, true, false, false, false, args); err != nil {
			t.Fatal(err)
		}
	}
}

// publish publishes to a queue and waits for the confirm.
func publish(t *testing.T, ch *amqp091.Channel, queue string, headers amqp091.Table) {
	t.Helper()
	d, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "", queue, true, false, amqp091.Publishing{
		Headers: headers, MessageId: "m1", Body: []byte("body"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := d.WaitContext(t.Context()); err != nil || !ok {
		t.Fatalf("confirmed %t: %v", ok, err)
	}
}

// consume consumes from a queue.
func consume(t *testing.T, ch *amqp091.Channel, queue string) <-chan amqp091.Delivery {
	t.Helper()
	all, err := ch.ConsumeWithContext(t.Context(), queue, "tag", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// next returns the next delivery.
func next(t *testing.T, all <-chan amqp091.Delivery) amqp091.Delivery {
	t.Helper()
	select {
	case d := <-all:
		return d
	case <-time.After(30 * time.Second):
		t.Fatal("nothing is delivered")
	}
	panic("not reached")
}

// A message that is published on one node, dead-lettered and consumed on others is one trace. A message without a
// traceparent, or with one that is not sampled, has none.
func TestTraceOverNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	nodes, c := traced(t)
	ch := channel(t, nodes.AMQP(0))
	declare(t, ch)
	publish(t, ch, "work", amqp091.Table{"traceparent": traceparent})
	deliveries := consume(t, channel(t, nodes.AMQP(1)), "work")
	for _, requeue := range []bool{true, false} {
		d := next(t, deliveries)
		if d.Headers["traceparent"] != traceparent {
			t.Errorf("the consumer gets %v", d.Headers)
		}
		if err := d.Reject(requeue); err != nil {
			t.Fatal(err)
		}
	}
	cl, err := client.Dial(t.Context(), client.Config{Addresses: nodes.Addrs()[2:], FixedAddresses: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	dead, err := cl.Consume(t.Context(), client.ConsumeConfig{Queue: "dead"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dead.Close)
	letter, err := dead.Receive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if letter.Headers["traceparent"] != traceparent {
		t.Errorf("the consumer of the dead letter gets %v", letter.Headers)
	}
	if err := letter.Ack(); err != nil {
		t.Fatal(err)
	}
	work, err := cl.GetQueue(t.Context(), client.QueueRef{Name: "work"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"node-0: publish amq.default", "node-0: commit work", "node-1: deliver work", "node-1: requeue work", "node-1: deliver work",
		"node-1: discard work",
		work.Leader + ": dead-letter work", "node-2: deliver dead", "node-2: ack dead",
	}
	var spans []collector.Span
	testcluster.Poll(t, "the trace is whole", func() error {
		spans = c.Of(publisherTrace)
		if names := namesOf(spans); !slices.Equal(names, want) {
			return fmt.Errorf("spans %q, want %q", names, want)
		}
		return nil
	})
	var again []any
	for i, s := range spans {
		above := publisherSpan // except for what belongs to the span before it
		if !strings.HasPrefix(s.Name, "publish ") && !strings.HasPrefix(s.Name, "deliver ") && !strings.HasPrefix(s.Name, "dead-letter ") {
			above = spans[i-1].ID
		}
		if s.Parent != above || s.Failed != "" || s.Service != "quorate" || s.Attributes["messaging.system"] != "quorate" {
			t.Errorf("%s: below %s, want %s; %+v", s.Name, s.Parent, above, s)
		}
		if s.Name == "deliver work" {
			again = append(again, s.Attributes["messaging.quorate.message.redelivered"], s.Attributes["messaging.quorate.message.delivery_count"])
		}
	}
	if want := []any{"", "", true, int64(1)}; !slices.Equal(again, want) {
		t.Errorf("redelivered, delivery count: %v, want %v", again, want)
	}
	if t.Failed() {
		t.Logf("%+v", spans)
	}
	untraced(t, ch, c, nodes.AMQP(2))
	overGRPC(t, cl, c)
}

// overGRPC publishes over gRPC, takes the message with Get, and settles it together with another one. cl is a client of
// node-2, and consumes from the queue dead.
func overGRPC(t *testing.T, cl *client.Client, c *collector.Collector) {
	t.Helper()
	of := func(trace, key string) client.Message {
		return client.Message{RoutingKey: key, Properties: client.Properties{Headers: client.Table{"traceparent": "00-" + trace + traceparent[35:]}}}
	}
	first, second := "2"+publisherTrace[1:], "3"+publisherTrace[1:]
	if r, err := cl.PublishOne(t.Context(), of(first, "plain")); err != nil || r.Outcome != client.Confirmed {
		t.Fatal(r, err)
	}
	got, err := cl.Get(t.Context(), client.GetRequest{Queue: "plain"})
	if err != nil || got == nil {
		t.Fatal(got, err)
	}
	if err := cl.SettleAndPublish(t.Context(), client.SettleAndPublishRequest{
		Token: got.Token, Outputs: []client.Message{of(second, "dead")},
	}); err != nil {
		t.Fatal(err)
	}
	plain, err := cl.GetQueue(t.Context(), client.QueueRef{Name: "plain"})
	if err != nil {
		t.Fatal(err)
	}
	for trace, want := range map[string][]string{
		first:  {"node-2: publish amq.default", "node-2: commit plain", "node-2: receive plain"},
		second: {"node-2: publish amq.default", plain.Leader + ": move plain", "node-2: deliver dead"},
	} {
		testcluster.Poll(t, "a trace over gRPC is whole", func() error {
			if names := namesOf(c.Of(trace)); !slices.Equal(names, want) {
				return fmt.Errorf("spans %q, want %q", names, want)
			}
			return nil
		})
	}
}

// untraced publishes and consumes messages that nothing is traced of.
func untraced(t *testing.T, ch *amqp091.Channel, c *collector.Collector, at string) {
	t.Helper()
	before := c.Count()
	publish(t, ch, "plain", nil)
	publish(t, ch, "plain", amqp091.Table{"traceparent": traceparent[:len(traceparent)-1] + "0"})
	other := channel(t, at)
	for range 2 {
		d, ok, err := other.Get("plain", true)
		if err != nil || !ok {
			t.Fatalf("got %t: %v", ok, err)
		}
		if len(d.Body) == 0 {
			t.Error("it has no body")
		}
	}
	publish(t, ch, "plain", amqp091.Table{"traceparent": "00-1" + traceparent[4:]})
	if _, ok, err := other.Get("plain", true); err != nil || !ok {
		t.Fatalf("got %t: %v", ok, err)
	}
	testcluster.Poll(t, "a later trace has arrived", func() error {
		if got := len(c.Of("1" + publisherTrace[1:])); got != 3 {
			return fmt.Errorf("%d spans", got)
		}
		return nil
	})
	if got := c.Count() - before; got != 3 {
		t.Errorf("%d more spans, want 3: publish, commit, receive", got)
	}
}

// namesOf returns the nodes and names of spans.
func namesOf(spans []collector.Span) []string {
	var out []string
	for _, s := range spans {
		out = append(out, s.Node+": "+s.Name)
	}
	return out
}
