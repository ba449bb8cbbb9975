package tracing

import (
	"log/slog"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorate/quorate/message"
)

// Attributes of the spans of dead letters and moved messages.
const (
	keyTarget           = attribute.Key("messaging.quorate.target")
	keyReason           = attribute.Key("messaging.quorate.reason")
	keyDeadLetterByName = attribute.Key("messaging.quorate.dead_letter_exchange")
)

// Origin is the creation of a traced message, kept while its header is not at hand. nil: the message is not traced.
type Origin struct{ parent trace.SpanContext }

// Origin returns the creation of a message with these headers; nil if it is not traced.
func (t *Tracer) Origin(h message.Table) *Origin {
	if t == nil {
		return nil
	}
	parent, sampled := parentOf(h)
	if !sampled {
		return nil
	}
	return &Origin{parent}
}

// Attr returns the attribute of a log line about the message: trace_id, or none if the message is not traced.
func (o *Origin) Attr() slog.Attr {
	if o == nil {
		return slog.Attr{}
	}
	return slog.String("trace_id", o.parent.TraceID().String())
}

// Forward is a message that goes from one queue to another.
type Forward struct {
	VHost, Source, Target string
	// Reason is why the message was discarded; "": it is moved, and is no dead letter.
	Reason                       string
	Exchange                     string // the dead-letter exchange of Source
	DeliveryCount, AcquiredCount uint32
}

// Forwarded is the span of a message on its way from one queue to another; nil: it is not traced.
type Forwarded struct{ span trace.Span }

// Forward begins the span of a message on its way to one target; it returns nil if the message is not traced.
func (t *Tracer) Forward(o *Origin, f *Forward) *Forwarded {
	if t == nil || o == nil {
		return nil
	}
	name := "dead-letter"
	if f.Reason == "" {
		name = "move"
	}
	about := append(operation(name, "", f.Source, f.VHost), keyTarget.String(f.Target))
	if f.Reason != "" {
		about = append(about, keyReason.String(f.Reason), keyDeadLetterByName.String(exchangeName(f.Exchange)),
			keyDeliveryCount.Int64(int64(f.DeliveryCount)), keyAcquiredCount.Int64(int64(f.AcquiredCount)))
	}
	return &Forwarded{t.start(o.parent, name+" "+f.Source, trace.SpanKindInternal, about...)}
}

// End ends the span; failed is why the target has not stored the message, "" if it has.
func (f *Forwarded) End(failed string) {
	if f == nil {
		return
	}
	if failed != "" {
		f.span.SetStatus(codes.Error, failed)
	}
	f.span.End()
}
