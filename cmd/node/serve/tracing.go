package serve

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"

	"github.com/quorate/quorate/tracing"
)

// openTracing starts tracing if the variables of OpenTelemetry name a collector. A fault in them is logged, and nothing
// is traced: messages matter more than their traces.
func (n *node) openTracing(ctx context.Context) {
	wanted, err := tracingWanted(os.Getenv)
	if err == nil && wanted {
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { n.log.Warn("OpenTelemetry reports an error", "node", n.cfg.NodeID, "error", err) }))
		n.tracer, err = n.newTracer(ctx)
	}
	if err != nil {
		n.log.Warn("nothing is traced", "node", n.cfg.NodeID, "error", err)
	} else if wanted {
		n.log.Info("messages with a sampled traceparent are traced", "node", n.cfg.NodeID,
			"collector", cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")))
	}
}

// newTracer connects to the collector, in the background: the collector need not be there yet.
func (n *node) newTracer(ctx context.Context) (*tracing.Tracer, error) {
	waiting, err := queueSpans(os.Getenv("OTEL_BSP_MAX_QUEUE_SIZE"))
	if err != nil {
		return nil, err
	}
	collector, err := otlptracegrpc.New(ctx) // reads the variables
	if err != nil {
		return nil, fmt.Errorf("the collector of traces: %w: see the OTEL_EXPORTER_OTLP_ variables", err)
	}
	c := tracing.Config{
		Exporter: collector, Node: n.cfg.NodeID, Cluster: n.cfg.Cluster.Name, Version: n.version, QueueSpans: waiting, Logger: n.log,
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return tracing.New(ctx, c)
}

// tracingWanted reports whether the environment names a collector, and does not turn tracing off.
func tracingWanted(env func(string) string) (bool, error) {
	if cmp.Or(env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), env("OTEL_EXPORTER_OTLP_ENDPOINT")) == "" {
		return false, nil
	}
	if off, err := strconv.ParseBool(cmp.Or(env("OTEL_SDK_DISABLED"), "false")); err != nil {
		return false, fmt.Errorf("OTEL_SDK_DISABLED = %q: want true or false", env("OTEL_SDK_DISABLED"))
	} else if off {
		return false, nil
	}
	switch exporter := env("OTEL_TRACES_EXPORTER"); exporter {
	case "", "otlp":
	case "none":
		return false, nil
	default:
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER = %q: want otlp or none", exporter)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} { // the first that is set counts
		switch p := env(name); p {
		case "":
			continue
		case "grpc":
		default:
			return false, fmt.Errorf("%s = %q: only grpc is supported; use the collector's port for that, usually 4317", name, p)
		}
		break
	}
	return true, nil
}

// queueSpans reads how many spans may wait for the collector; 0: the default.
func queueSpans(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > tracing.MaxQueueSpans {
		return 0, fmt.Errorf("OTEL_BSP_MAX_QUEUE_SIZE = %q: want 1 to %d spans", text, tracing.MaxQueueSpans)
	}
	return n, nil
}

// closeTracing sends the last spans, but waits for no collector that is away.
func (n *node) closeTracing() {
	bounded(lastSpans, func(ctx context.Context) {
		if err := n.tracer.Close(ctx); err != nil {
			n.log.Warn("the last spans are lost", "node", n.cfg.NodeID, "error", err)
		}
	})
}
