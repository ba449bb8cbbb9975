package broker

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/tracing"
)

// parentHeaders returns the headers of a message with a traceparent; flags are its last two digits.
func parentHeaders(flags string) message.Table {
	return message.Table{{Name: "traceparent", Value: message.String("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-" + flags)}}
}

// testTracer returns a tracer that keeps its spans in memory; flush exports those that have ended.
func testTracer(t testing.TB) (x *tracing.Tracer, flush func() tracetest.SpanStubs) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	kept := &keeping{spans}
	x, err := tracing.New(t.Context(), tracing.Config{Exporter: kept, Node: "n"})
	if err != nil {
		t.Fatal(err)
	}
	return x, func() tracetest.SpanStubs {
		if err := x.Close(context.Background()); err != nil {
			t.Error(err)
		}
		return spans.GetSpans()
	}
}

// keeping is an exporter that keeps its spans when it is shut down.
type keeping struct{ *tracetest.InMemoryExporter }

// Shutdown leaves the spans to the test.
func (*keeping) Shutdown(context.Context) error { return nil }

// Tracing costs a message that is not traced no allocation: it is off, or the message has no traceparent that is sampled.
func TestUntracedPublishAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("allocations are not those of a normal build")
	}
	on, flush := testTracer(t)
	defer flush()
	count := func(x *tracing.Tracer, h message.Table) float64 {
		b := testBrokerOf(t, Config{MaxBodyBytes: 1000, Tracer: x}, func(string) enqueuer { return discarding{} }, "q0", "q1")
		p := &Publish{VHost: "/", RoutingKey: "q", Message: message.Message{Exchange: "amq.fanout", Headers: h, Body: make([]byte, 900)}}
		done := func(Result) {}
		return testing.AllocsPerRun(1000, func() { b.Publish(context.Background(), p, done) })
	}
	for name, row := range map[string]struct {
		x *tracing.Tracer
		h message.Table
	}{
		"off":        {nil, parentHeaders("01")},
		"no headers": {on, nil},
		"unsampled":  {on, parentHeaders("00")},
	} {
		if got, want := count(row.x, row.h), count(nil, nil); got != want {
			t.Errorf("%s: %v allocations a publish, want %v as without tracing", name, got, want)
		}
	}
}

// The span of a publish says its outcome, and each queue's answer has one of its own.
func TestPublishSpans(t *testing.T) {
	x, flush := testTracer(t)
	ends := map[string]*answering{"a": {}, "b": {err: errDropped}}
	b := testBrokerOf(t, Config{MaxBodyBytes: 1000, Tracer: x}, func(name string) enqueuer { return ends[name] }, "a", "b")
	for _, p := range []*Publish{
		{VHost: "/", RoutingKey: "a", Message: message.Message{Headers: parentHeaders("01")}},
		{VHost: "/", Message: message.Message{Exchange: "amq.fanout", Headers: parentHeaders("01")}},
		{VHost: "/", RoutingKey: "none", Mandatory: true, Message: message.Message{Headers: parentHeaders("01")}},
		{VHost: "/", Message: message.Message{Exchange: "none", Headers: parentHeaders("01")}},
		{VHost: "/", RoutingKey: "a"},
	} {
		publish(t, b, p)
	}
	var got []string
	for _, s := range flush() {
		line := s.Name + ": " + s.Status.Description
		for _, a := range s.Attributes {
			if a.Key == "messaging.quorate.outcome" {
				line += " " + a.Value.AsString()
			}
		}
		got = append(got, line)
	}
	want := []string{
		"commit a: ", "publish amq.default:  confirmed",
		"commit a: ", "commit b: " + errDropped.Error(), "publish amq.fanout: queue b: unavailable rejected",
		"publish amq.default:  returned",
		`publish none: NOT_FOUND: exchange "none" in vhost "/": does not exist; declare it first invalid`,
	}
	if len(got) != len(want) {
		t.Fatalf("%d spans, want %d: %q", len(got), len(want), got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("span %d is %q, want %q", i, got[i], want[i])
		}
	}
}
