// Package tracing makes OpenTelemetry spans of what the broker does with a message: publish, commit, deliver, settle,
// dead-letter. docs/tracing.md describes them.
//
// Only messages are traced that carry a W3C traceparent with the sampled flag in their headers: their publisher decides.
// A nil *Tracer, which is what a node without a collector has, traces nothing, and its methods return at once. Nothing
// here waits: spans that the collector does not take in time are dropped and counted.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorate/quorate/message"
)

// Headers of a message that hold the context of its creation, as W3C Trace Context names them. The broker reads them and
// never changes them.
const (
	headerParent = "traceparent"
	headerState  = "tracestate"
)

// MaxStateBytes limits the tracestate that spans carry on; a longer one is left out. W3C asks for at least as much.
const MaxStateBytes = 512

// maxTextBytes limits a text in a span, such as an error, unless OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT does.
const maxTextBytes = 1024

// Config configures a Tracer.
type Config struct {
	// Exporter takes the spans; Close shuts it down.
	Exporter sdktrace.SpanExporter
	// Node, Cluster and Version name this process to the collector. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES
	// come before them.
	Node, Cluster, Version string
	// QueueSpans limits the spans that wait for the collector; later ones are dropped. 0: 2048.
	QueueSpans int
	Logger     *slog.Logger // nil: nothing is logged
}

// MaxQueueSpans is the highest Config.QueueSpans. A span is 1 to 2 KiB.
const MaxQueueSpans = 1 << 20

// Validate returns all faults at once.
func (c *Config) Validate() error {
	var errs []error
	if c.Exporter == nil {
		errs = append(errs, errors.New("tracing: Exporter is not set; without one, use a nil Tracer"))
	}
	if c.QueueSpans < 0 || c.QueueSpans > MaxQueueSpans {
		errs = append(errs, errors.New("tracing: QueueSpans = "+strconv.Itoa(c.QueueSpans)+": want 0 (default) to "+strconv.Itoa(MaxQueueSpans)))
	}
	return errors.Join(errs...)
}

// Tracer makes spans. All methods may be called concurrently; nil traces nothing.
type Tracer struct {
	tracer   trace.Tracer
	provider *sdktrace.TracerProvider
	queue    *bounded
	log      *slog.Logger
}

// New returns a tracer, which runs until Close. The Config must be valid.
func New(ctx context.Context, c Config) (*Tracer, error) {
	if c.QueueSpans == 0 {
		c.QueueSpans = DefaultQueueSpans
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(
			attribute.String("service.name", "quorate"), attribute.String("service.namespace", c.Cluster),
			attribute.String("service.instance.id", c.Node), attribute.String("service.version", c.Version),
		),
		resource.WithTelemetrySDK(), resource.WithFromEnv(),
	)
	if err != nil {
		return nil, fmt.Errorf("tracing: OTEL_RESOURCE_ATTRIBUTES: %w: want key=value, separated by commas", err)
	}
	limits := sdktrace.NewSpanLimits()
	if limits.AttributeValueLengthLimit < 0 {
		limits.AttributeValueLengthLimit = maxTextBytes
	}
	t := &Tracer{queue: newBounded(c.Exporter, c.QueueSpans, c.Logger), log: c.Logger}
	t.provider = sdktrace.NewTracerProvider(
		sdktrace.WithResource(about), sdktrace.WithRawSpanLimits(limits), sdktrace.WithSpanProcessor(t.queue),
	)
	t.tracer = t.provider.Tracer("github.com/quorate/quorate", trace.WithInstrumentationVersion(c.Version))
	return t, nil
}

// Close exports what waits, but not beyond ctx, and ends the exporter.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("tracing: the last spans: %w", err)
	}
	return nil
}

// Stats returns the counts of spans; all are 0 if nothing is traced.
func (t *Tracer) Stats() Stats {
	if t == nil {
		return Stats{}
	}
	return Stats{Exported: t.queue.exported.Load(), Full: t.queue.full.Load(), Failed: t.queue.failed.Load()}
}

// start begins a span below another one, or below the creation of its message.
func (t *Tracer) start(parent trace.SpanContext, name string, kind trace.SpanKind, about ...attribute.KeyValue) trace.Span {
	ctx := trace.ContextWithSpanContext(context.Background(), parent)
	_, span := t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(about...))
	return span
}

// Positions in a traceparent: version-trace-parent-flags, in lower-case hexadecimal digits.
const (
	parentBytes  = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	traceAt      = len("00-")
	traceEnd     = traceAt + 32
	spanAt       = traceEnd + 1
	spanEnd      = spanAt + 16
	flagsAt      = spanEnd + 1
	firstVersion = "00"
	noVersion    = "ff"
)

// parentOf returns the context in which a message was created, if it is to be traced: its headers have a traceparent
// with the sampled flag. A malformed one counts as none. It allocates only for messages that are traced. The context
// shares no memory with the headers, which it may outlive.
func parentOf(h message.Table) (sc trace.SpanContext, sampled bool) {
	if len(h) == 0 {
		return sc, false
	}
	p, ok := textOf(h, headerParent)
	if !ok || len(p) < parentBytes || p[traceAt-1] != '-' || p[traceEnd] != '-' || p[spanEnd] != '-' {
		return sc, false
	}
	flags, err := strconv.ParseUint(p[flagsAt:parentBytes], 16, 8)
	if err != nil || flags&1 == 0 {
		return sc, false
	}
	switch version := p[:traceAt-1]; { // later versions may append fields
	case version == noVersion, version == firstVersion && len(p) != parentBytes, len(p) > parentBytes && p[parentBytes] != '-':
		return sc, false
	default:
		if _, err := strconv.ParseUint(version, 16, 8); err != nil {
			return sc, false
		}
	}
	id, errTrace := trace.TraceIDFromHex(p[traceAt:traceEnd])
	span, errSpan := trace.SpanIDFromHex(p[spanAt:spanEnd])
	if errTrace != nil || errSpan != nil {
		return sc, false
	}
	c := trace.SpanContextConfig{TraceID: id, SpanID: span, TraceFlags: trace.FlagsSampled, Remote: true}
	if s, ok := textOf(h, headerState); ok && len(s) <= MaxStateBytes {
		if state, err := trace.ParseTraceState(strings.Clone(s)); err == nil {
			c.TraceState = state
		}
	}
	return trace.NewSpanContext(c), true
}

// textOf returns a header that is a string, or bytes, which some clients send instead.
func textOf(h message.Table, name string) (string, bool) {
	v, there := h.Get(name)
	if !there {
		return "", false
	}
	if s, ok := v.AsString(); ok {
		return s, true
	}
	return v.AsBytes()
}
