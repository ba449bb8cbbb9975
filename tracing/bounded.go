package tracing

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/quorate/quorate/internal/lograte"
)

// DefaultQueueSpans is the default of Config.QueueSpans, that of OpenTelemetry.
const DefaultQueueSpans = 2048

// Stats counts spans since the start.
type Stats struct {
	Exported uint64 // the collector has taken them
	Full     uint64 // dropped, because QueueSpans were waiting
	Failed   uint64 // dropped, because the collector did not take them
}

// bounded hands ended spans to a batch processor, unless limit of them wait already. The processor bounds its queue
// too, but does not report how many spans it has dropped. Its own queue is as large, so it never drops one.
type bounded struct {
	sdktrace.SpanProcessor
	limit    int64
	waiting  atomic.Int64 // ended and not yet exported
	exported atomic.Uint64
	full     atomic.Uint64
	failed   atomic.Uint64

	log   *slog.Logger
	lines lograte.Lines
}

// How often the log mentions that spans are lost: a dead collector would fill it.
const (
	lostBurst = 3
	lostEvery = time.Minute
)

// newBounded returns what exports spans in batches. OTEL_BSP_ variables set the time and the size of a batch.
func newBounded(to sdktrace.SpanExporter, limit int, log *slog.Logger) *bounded {
	b := &bounded{limit: int64(limit), log: log, lines: lograte.Lines{Burst: lostBurst, Every: lostEvery}}
	options := []sdktrace.BatchSpanProcessorOption{sdktrace.WithMaxQueueSize(limit)}
	if limit < sdktrace.DefaultMaxExportBatchSize { // else no batch would ever be full
		options = append(options, sdktrace.WithMaxExportBatchSize(limit))
	}
	b.SpanProcessor = sdktrace.NewBatchSpanProcessor(counted{to, b}, options...)
	return b
}

// OnEnd takes a span that has ended, or drops it; it never waits.
func (b *bounded) OnEnd(s sdktrace.ReadOnlySpan) {
	if b.waiting.Add(1) > b.limit {
		b.waiting.Add(-1)
		b.full.Add(1)
		return
	}
	b.SpanProcessor.OnEnd(s)
}

// counted counts what an exporter does with the spans of a bounded.
type counted struct {
	sdktrace.SpanExporter
	b *bounded
}

// ExportSpans exports a batch. It reports errors here and returns none: the SDK would write them to the standard error.
func (c counted) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := c.SpanExporter.ExportSpans(ctx, spans)
	n := len(spans)
	c.b.waiting.Add(-int64(n))
	if err == nil {
		c.b.exported.Add(uint64(n))
		return nil
	}
	c.b.failed.Add(uint64(n))
	if skipped, ok := c.b.lines.Take(time.Now()); ok {
		c.b.log.Warn("the collector does not take spans, which are dropped", "spans", n, "error", err, "lines_left_out", skipped)
	}
	return nil
}
