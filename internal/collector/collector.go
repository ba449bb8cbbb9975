// Package collector is a collector of traces on loopback, for tests: it receives OTLP over gRPC as a real one does.
package collector

import (
	"context"
	"encoding/hex"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// Collector keeps the spans that it has received. Its methods may be called concurrently.
type Collector struct {
	collectorv1.UnimplementedTraceServiceServer
	// Addr is where it listens, as host:port.
	Addr string

	mu    sync.Mutex
	spans []Span
}

// Span is what tests compare of a span.
type Span struct {
	Node, Service     string // service.instance.id and service.name of the process
	Name              string
	Trace, Parent, ID string // in hexadecimal digits
	Failed            string // description of the status
	Begin, End        time.Time
	Attributes        map[string]any
}

// Start starts a collector, which ends with the test.
func Start(t testing.TB) *Collector {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &Collector{Addr: l.Addr().String()}
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

// Export receives spans.
func (c *Collector) Export(_ context.Context, req *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range req.GetResourceSpans() {
		about := map[string]string{}
		for _, a := range r.GetResource().GetAttributes() {
			about[a.GetKey()] = a.GetValue().GetStringValue()
		}
		for _, scope := range r.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				x := spanOf(s)
				x.Node, x.Service = about["service.instance.id"], about["service.name"]
				c.spans = append(c.spans, x)
			}
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

// spanOf converts a span.
func spanOf(s *tracev1.Span) Span {
	x := Span{
		Name: s.GetName(), Trace: hex.EncodeToString(s.GetTraceId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
		ID: hex.EncodeToString(s.GetSpanId()), Failed: s.GetStatus().GetMessage(), Attributes: map[string]any{},
		Begin: time.Unix(0, int64(s.GetStartTimeUnixNano())), End: time.Unix(0, int64(s.GetEndTimeUnixNano())),
	}
	for _, a := range s.GetAttributes() {
		v := a.GetValue()
		x.Attributes[a.GetKey()] = v.GetStringValue()
		switch {
		case v.GetIntValue() != 0:
			x.Attributes[a.GetKey()] = v.GetIntValue()
		case v.GetBoolValue():
			x.Attributes[a.GetKey()] = true
		}
	}
	return x
}

// Of returns the spans of a trace in the order of their beginnings.
func (c *Collector) Of(trace string) []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Span
	for _, s := range c.spans {
		if s.Trace == trace {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b Span) int { return a.Begin.Compare(b.Begin) })
	return out
}

// Count returns how many spans there are.
func (c *Collector) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.spans)
}
