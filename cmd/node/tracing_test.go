package main

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/collector"
)

// The variables of OpenTelemetry turn tracing on in a real process. A node that stops sends the spans that still wait.
func TestTracing(t *testing.T) {
	binary := build(t)
	to := collector.Start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+to.Addr)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "600000") // milliseconds: never, except for the stop
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=ours")
	c, err := chaos.NewCluster(chaos.ClusterConfig{Binary: binary, Dir: t.TempDir(), Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	cl := withQueue(ctx, t, c)
	defer cl.Close()
	const trace = "0af7651916cd43dd8448eb211c80319c"
	m := client.Message{RoutingKey: "q", Properties: client.Properties{Headers: client.Table{"traceparent": "00-" + trace + "-b7ad6b7169203331-01"}}}
	if _, err := cl.PublishOne(ctx, m); err != nil {
		t.Fatal(err)
	}
	text, status, err := get(ctx, t, "http://"+c.Nodes[0].HTTP+"/metrics")
	if err != nil || status != http.StatusOK || !strings.Contains(text, "\nquorate_trace_spans_exported_total 0\n") {
		t.Error(status, err, text)
	}
	if err := c.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	spans := to.Of(trace)
	if len(spans) != 2 || spans[0].Name != "publish amq.default" || spans[1].Name != "commit q" || spans[0].Service != "ours" || spans[0].Node != c.Nodes[0].ID {
		t.Errorf("spans %+v", spans)
	}
	log, err := os.ReadFile(c.Nodes[0].LogFile())
	if err != nil || !strings.Contains(string(log), "messages with a sampled traceparent are traced") {
		t.Error(err, string(log))
	}
}
