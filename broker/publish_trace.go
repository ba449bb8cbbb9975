package broker

import (
	"github.com/quorate/quorate/tracing"
)

// tracePublish begins the span of a publish; nil: the message is not traced.
func (b *Broker) tracePublish(m *Publish) *tracing.Publish {
	return b.tracer.Publish(&tracing.Publication{
		VHost: m.VHost, Exchange: m.Exchange, RoutingKey: m.RoutingKey, Properties: &m.Properties, Headers: m.Headers, Bytes: len(m.Body),
	})
}

// traceOutputs begins the spans of messages that a decision publishes. What it returns ends them, with the outcome of
// the decision.
func (b *Broker) traceOutputs(outputs []Publish) func(error) {
	if b.tracer == nil {
		return func(error) {}
	}
	var spans []*tracing.Publish
	for i := range outputs {
		if span := b.tracePublish(&outputs[i]); span != nil {
			spans = append(spans, span)
		}
	}
	return func(err error) {
		r := Result{Kind: Confirmed, Queues: 1} // the queue of the decision has stored them
		if err != nil {
			r = Result{Kind: Rejected, Err: err}
		}
		for _, span := range spans {
			traceResult(span, &r)
		}
	}
}

// traceResult ends the span of a publish.
func traceResult(span *tracing.Publish, r *Result) {
	outcome := [...]string{Confirmed: "confirmed", Rejected: "rejected", Returned: "returned", Invalid: "invalid"}[r.Kind]
	failed := ""
	switch {
	case r.Err != nil:
		failed = r.Err.Error()
	case len(r.Rejections) > 0:
		failed = traceCause(&r.Rejections[0])
	}
	span.End(outcome, r.Queues, failed)
}

// traceCause describes why a queue did not take a message.
func traceCause(x *Rejection) string {
	cause := [...]string{CauseMaxLen: "maxlen", CauseUnavailable: "unavailable", CauseUnknown: "unknown", CauseNoSpace: "no_space"}[x.Cause]
	if x.Reason != "" {
		cause += ": " + x.Reason
	}
	if x.Queue == "" {
		return cause
	}
	return "queue " + x.Queue + ": " + cause
}
