package tracing_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/tracing"
)

// collector is an OTLP receiver on loopback.
type collector struct {
	collectorv1.UnimplementedTraceServiceServer
	addr string

	mu    sync.Mutex
	spans []span
}

// span is what a test compares of a span.
type span struct {
	node, name            string
	trace, parent, id     string
	attributes            map[string]string
	failed                string
	begin, end            time.Time
	serviceName, instance string
}

func startCollector(t *testing.T) *collector {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &collector{addr: l.Addr().String()}
	s := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(s, c)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return c
}

// Export implements the service.
func (c *collector) Export(_ context.Context, req *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range req.GetResourceSpans() {
		about := map[string]string{}
		for _, a := range r.GetResource().GetAttributes() {
			about[a.GetKey()] = a.GetValue().GetStringValue()
		}
		for _, scope := range r.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, spanOf(s, about))
			}
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

func spanOf(s *tracev1.Span, about map[string]string) span {
	x := span{
		node: about["service.instance.id"], serviceName: about["service.name"], name: s.GetName(), attributes: map[string]string{},
		trace: hex.EncodeToString(s.GetTraceId()), parent: hex.EncodeToString(s.GetParentSpanId()), id: hex.EncodeToString(s.GetSpanId()),
		failed: s.GetStatus().GetMessage(),
		begin:  time.Unix(0, int64(s.GetStartTimeUnixNano())), end: time.Unix(0, int64(s.GetEndTimeUnixNano())),
	}
	for _, a := range s.GetAttributes() {
		x.attributes[a.GetKey()] = strings.Trim(strings.TrimPrefix(a.GetValue().String(), kindOf(a.GetValue().String())), `"`)
	}
	return x
}

// kindOf returns the prefix of a value's text form that names its type, as in string_value:"x".
func kindOf(text string) string {
	if i := strings.IndexByte(text, ':'); i >= 0 {
		return text[:i+1]
	}
	return ""
}

// of returns the spans of a trace in the order of their beginnings.
func (c *collector) of(trace string) []span {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []span
	for _, s := range c.spans {
		if s.trace == trace {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b span) int { return a.begin.Compare(b.begin) })
	return out
}

// count returns how many spans there are.
func (c *collector) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.spans)
}

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

// show prints spans for a failed test.
func show(spans []span) string {
	var b strings.Builder
	for _, s := range spans {
		fmt.Fprintf(&b, "\n%s: %s (%s below %s) %s %v", s.node, s.name, s.id, s.parent, s.failed, s.attributes)
	}
	return b.String()
}
