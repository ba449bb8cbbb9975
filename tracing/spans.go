package tracing

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorate/quorate/message"
)

// Attributes of spans. Those that OpenTelemetry has no name for are in the namespace of this system.
const (
	keySystem        = attribute.Key("messaging.system")
	keyOperation     = attribute.Key("messaging.operation.name")
	keyOperationType = attribute.Key("messaging.operation.type")
	keyDestination   = attribute.Key("messaging.destination.name")
	keyMessageID     = attribute.Key("messaging.message.id")
	keyConversation  = attribute.Key("messaging.message.conversation_id")
	keyBodySize      = attribute.Key("messaging.message.body.size")

	keyVHost         = attribute.Key("messaging.quorate.vhost")
	keyRoutingKey    = attribute.Key("messaging.quorate.destination.routing_key")
	keyOutcome       = attribute.Key("messaging.quorate.outcome")
	keyQueues        = attribute.Key("messaging.quorate.queues")
	keyConsumer      = attribute.Key("messaging.quorate.consumer.tag")
	keyRedelivered   = attribute.Key("messaging.quorate.message.redelivered")
	keyDeliveryCount = attribute.Key("messaging.quorate.message.delivery_count")
	keyAcquiredCount = attribute.Key("messaging.quorate.message.acquired_count")
	keyFailed        = attribute.Key("messaging.quorate.failed")
	keyDeaths        = attribute.Key("messaging.quorate.message.deaths")
)

// defaultExchange stands for the exchange without a name, as in RabbitMQ.
const defaultExchange = "amq.default"

// exchangeName returns the name under which spans show an exchange.
func exchangeName(name string) string {
	if name == "" {
		return defaultExchange
	}
	return name
}

// operation returns the attributes that every span has. kind is one of OpenTelemetry's types of operations; "": none of
// them describes it.
func operation(name, kind, destination, vhost string) []attribute.KeyValue {
	out := []attribute.KeyValue{
		keySystem.String("quorate"), keyOperation.String(name), keyDestination.String(destination), keyVHost.String(vhost),
	}
	if kind != "" {
		out = append(out, keyOperationType.String(kind))
	}
	return out
}

// ofMessage adds what identifies a message. It copies texts: they may share the memory of all headers of the message,
// and spans may wait for long.
func ofMessage(about []attribute.KeyValue, p *message.Properties, bytes int) []attribute.KeyValue {
	if p.MessageID != "" {
		about = append(about, keyMessageID.String(strings.Clone(p.MessageID)))
	}
	if p.CorrelationID != "" {
		about = append(about, keyConversation.String(strings.Clone(p.CorrelationID)))
	}
	return append(about, keyBodySize.Int(bytes))
}

// Publication is a message that is being published.
type Publication struct {
	VHost, Exchange, RoutingKey string
	Properties                  *message.Properties
	Headers                     message.Table
	Bytes                       int // of the body
}

// Publish is the span of a publish, from its receipt to its result. nil: the message is not traced.
type Publish struct {
	t     *Tracer
	span  trace.Span
	vhost string
}

// Publish begins the span of a publish; it returns nil if the message is not traced.
func (t *Tracer) Publish(p *Publication) *Publish {
	if t == nil {
		return nil
	}
	parent, sampled := parentOf(p.Headers)
	if !sampled {
		return nil
	}
	x := strings.Clone(exchangeName(p.Exchange))
	about := append(operation("publish", "send", x, p.VHost), keyRoutingKey.String(strings.Clone(p.RoutingKey)))
	about = ofMessage(about, p.Properties, p.Bytes)
	return &Publish{t: t, span: t.start(parent, "publish "+x, trace.SpanKindServer, about...), vhost: p.VHost}
}

// Commit begins the span of one queue's part of the publish. It returns what to call with the queue's answer, which ends
// the span and then calls answered.
func (p *Publish) Commit(queue string, answered func(error)) func(error) {
	span := p.t.start(p.span.SpanContext(), "commit "+queue, trace.SpanKindInternal, operation("commit", "", queue, p.vhost)...)
	return func(err error) {
		fail(span, err)
		span.End()
		answered(err)
	}
}

// End ends the span with the outcome: a word, how many queues have stored the message, and why the publish failed if it
// did. A publish that failed is logged too.
func (p *Publish) End(outcome string, queues int, failed string) {
	p.span.SetAttributes(keyOutcome.String(outcome), keyQueues.Int(queues))
	if failed != "" {
		p.span.SetStatus(codes.Error, failed)
		sc := p.span.SpanContext()
		p.t.log.Debug("a traced publish failed", "trace_id", sc.TraceID().String(), "span_id", sc.SpanID().String(), "vhost", p.vhost, "outcome", outcome, "reason", failed)
	}
	p.span.End()
}

// fail marks a span as failed if there is an error.
func fail(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
}

// Delivery is a message on its way to a client.
type Delivery struct {
	VHost, Queue, Consumer       string
	Message                      *message.Message
	Redelivered                  bool
	DeliveryCount, AcquiredCount uint32
}

// Deliver makes the span of a delivery to a consumer. traced is false if the message is not traced; otherwise Settle
// takes what it returns.
func (t *Tracer) Deliver(d *Delivery) (_ Delivered, traced bool) {
	if t == nil {
		return Delivered{}, false
	}
	parent, sampled := parentOf(d.Message.Headers)
	if !sampled {
		return Delivered{}, false
	}
	about := append(operation("deliver", "", d.Queue, d.VHost), keyConsumer.String(d.Consumer))
	span := t.start(parent, "deliver "+d.Queue, trace.SpanKindInternal, d.counts(about)...)
	span.End()
	return Delivered{span.SpanContext()}, true
}

// Receive makes the span of a message that a client has asked for at a time, and gets now.
func (t *Tracer) Receive(d *Delivery, asked time.Time) {
	if t == nil {
		return
	}
	if parent, sampled := parentOf(d.Message.Headers); sampled {
		about := d.counts(operation("receive", "receive", d.Queue, d.VHost))
		ctx := trace.ContextWithSpanContext(context.Background(), parent)
		_, span := t.tracer.Start(ctx, "receive "+d.Queue, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(about...), trace.WithTimestamp(asked))
		span.End()
	}
}

// counts adds what is known of earlier deliveries and deaths.
func (d *Delivery) counts(about []attribute.KeyValue) []attribute.KeyValue {
	about = ofMessage(about, &d.Message.Properties, len(d.Message.Body))
	return append(about, keyRedelivered.Bool(d.Redelivered), keyDeliveryCount.Int64(int64(d.DeliveryCount)),
		keyAcquiredCount.Int64(int64(d.AcquiredCount)), keyDeaths.Int(len(d.Message.Deaths)))
}

// Delivered is a delivery whose message is traced, for the span of its settlement.
type Delivered struct{ span trace.SpanContext }

// Settle makes the span of what a client, or the queue itself, has decided about a delivery: ack, requeue, discard or
// revoke. failed means that the decision counts as a failed delivery.
func (t *Tracer) Settle(d Delivered, how, vhost, queue string, failed bool) {
	about := append(operation(how, "settle", queue, vhost), keyFailed.Bool(failed))
	t.start(d.span, how+" "+queue, trace.SpanKindServer, about...).End()
}
