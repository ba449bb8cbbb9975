package grpcapi

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/message"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// vhostOf returns the vhost of a request; "" stands for the default one.
func vhostOf(name string) string {
	if name == "" {
		return broker.DefaultVHost
	}
	return name
}

// setPublish converts a message of the API to a publish; it overwrites out.
func setPublish(out *broker.Publish, m *brokerv1.Message) error {
	*out = broker.Publish{
		Message: message.Message{Exchange: m.GetExchange(), Body: m.GetBody()},
		VHost:   vhostOf(m.GetVhost()), RoutingKey: m.GetRoutingKey(), Mandatory: m.GetMandatory(),
		Delay: broker.Delay{AtMs: m.GetDeliverAtMs(), AfterMs: m.GetDelayMs()},
	}
	if raw := m.GetRawRoutingKey(); len(raw) > 0 {
		out.RoutingKey = string(raw)
	}
	if p := m.GetProperties(); p != nil {
		return setPublishProperties(out, p)
	}
	return nil
}

// setPublishProperties adds the properties of a message of the API to a publish.
func setPublishProperties(out *broker.Publish, p *brokerv1.Properties) error {
	q := &out.Properties
	for _, x := range texts(p, q) {
		if *x.api != nil {
			*x.own = **x.api
			q.Has |= x.bit
		}
	}
	if err := takeRaw(p, q); err != nil {
		return err
	}
	if p.Timestamp != nil {
		q.Timestamp = *p.Timestamp
		q.Has |= message.HasTimestamp
	}
	if n := p.DeliveryMode; n != nil {
		if *n != 1 && *n != 2 {
			return invalid("message", "delivery_mode", strconv.FormatUint(uint64(*n), 10), "want 1 (transient) or 2 (persistent), or leave it out")
		}
		q.DeliveryMode = uint8(*n)
		q.Has |= message.HasDeliveryMode
	}
	if n := p.Priority; n != nil {
		if *n > math.MaxUint8 {
			return invalid("message", "priority", strconv.FormatUint(uint64(*n), 10), "want 0 to 255")
		}
		q.Priority = uint8(*n)
		q.Has |= message.HasPriority
	}
	var err error
	if p.Headers != nil {
		q.Has |= message.HasHeaders
		out.Headers, err = fromTable("headers", p.Headers)
	}
	return err
}

// property is a text property, in the API and in a message.
type property struct {
	name string
	api  **string
	own  *string
	bit  message.Presence
}

// texts are the text properties.
func texts(p *brokerv1.Properties, q *message.Properties) [9]property {
	return [...]property{
		{"content_type", &p.ContentType, &q.ContentType, message.HasContentType},
		{"content_encoding", &p.ContentEncoding, &q.ContentEncoding, message.HasContentEncoding},
		{"correlation_id", &p.CorrelationId, &q.CorrelationID, message.HasCorrelationID},
		{"reply_to", &p.ReplyTo, &q.ReplyTo, message.HasReplyTo},
		{"expiration", &p.Expiration, &q.Expiration, message.HasExpiration},
		{"message_id", &p.MessageId, &q.MessageID, message.HasMessageID},
		{"type", &p.Type, &q.Type, message.HasType},
		{"user_id", &p.UserId, &q.UserID, message.HasUserID},
		{"app_id", &p.AppId, &q.AppID, message.HasAppID},
	}
}

// takeRaw reads properties that may not be UTF-8 (AM-9). Of several wrong names it always reports the first in order.
func takeRaw(p *brokerv1.Properties, q *message.Properties) error {
	raw := p.GetRaw()
	if len(raw) == 0 {
		return nil
	}
	all := texts(p, q)
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		i := slices.IndexFunc(all[:], func(x property) bool { return x.name == name })
		if i < 0 {
			return invalid("message", "raw", strconv.Quote(name), "is not a text property; want content_type, content_encoding, "+
				"correlation_id, reply_to, expiration, message_id, type, user_id or app_id")
		}
		*all[i].own = string(raw[name])
		q.Has |= all[i].bit
	}
	return nil
}

// toResult converts the result of a publish.
func toResult(out *brokerv1.PublishResult, r *broker.Result) {
	out.Reset()
	out.Queues = uint32(r.Queues)
	switch r.Kind {
	case broker.Confirmed:
		out.Result = brokerv1.PublishResult_RESULT_CONFIRMED
	case broker.Returned:
		out.Result = brokerv1.PublishResult_RESULT_RETURNED
	case broker.Invalid:
		out.Result = brokerv1.PublishResult_RESULT_INVALID
		out.Error = errorDetail(r.Err)
	case broker.Rejected:
		out.Result = brokerv1.PublishResult_RESULT_REJECTED
		for _, x := range r.Rejections {
			out.Rejections = append(out.Rejections, &brokerv1.Rejection{Queue: valid(x.Queue), Cause: toCause(x.Cause), Reason: valid(x.Reason)})
		}
	}
}

// toCause converts the cause of a rejection; one that the API does not know stays unspecified.
func toCause(c broker.RejectionCause) brokerv1.Rejection_Cause {
	switch c {
	case broker.CauseMaxLen:
		return brokerv1.Rejection_CAUSE_MAXLEN
	case broker.CauseUnavailable:
		return brokerv1.Rejection_CAUSE_UNAVAILABLE
	case broker.CauseUnknown:
		return brokerv1.Rejection_CAUSE_UNKNOWN
	case broker.CauseNoSpace:
		return brokerv1.Rejection_CAUSE_NO_SPACE
	}
	return brokerv1.Rejection_CAUSE_UNSPECIFIED
}

// setDelivery converts a delivery. The result refers to d, which must stay unchanged while out is
// in use.
func setDelivery(out *brokerv1.Delivery, props *brokerv1.Properties, d *broker.Delivery) {
	m := &d.Message
	out.DeliveryId = d.ID
	out.Exchange = valid(m.Exchange)
	out.RoutingKey, out.RawRoutingKey = shown(m.PrimaryKey())
	out.Body = m.Body
	out.Redelivered, out.DeliveryCount, out.AcquiredCount = d.Redelivered, d.DeliveryCount, d.AcquiredCount
	out.Annotations = toTable(m.Annotations)
	for i := range m.Deaths {
		out.Deaths = append(out.Deaths, toDeath(&m.Deaths[i]))
	}
	setProperties(props, m)
	out.Properties = props
}

// setProperties sets those properties of out that are present in m, including empty ones (MSG-1).
// It reuses out, because every delivery needs one. Texts that are not valid UTF-8 also go as bytes.
func setProperties(out *brokerv1.Properties, m *message.Message) {
	has := m.Present()
	out.Raw = nil
	for _, x := range texts(out, &m.Properties) {
		if *x.api = nil; has&x.bit == 0 {
			continue
		}
		text, raw := shown(*x.own)
		if raw != nil {
			if out.Raw == nil {
				out.Raw = map[string][]byte{}
			}
			out.Raw[x.name] = raw
		}
		*x.own = text
		*x.api = x.own
	}
	if has&message.HasTimestamp != 0 {
		out.Timestamp = &m.Timestamp
	}
	if has&message.HasDeliveryMode != 0 {
		mode := uint32(m.DeliveryMode)
		out.DeliveryMode = &mode
	}
	if has&message.HasPriority != 0 {
		priority := uint32(m.Priority)
		out.Priority = &priority
	}
	out.Headers = toTable(m.Headers.Merged(deathHeaders(m)))
	if out.Headers == nil && has&message.HasHeaders != 0 {
		out.Headers = &brokerv1.Table{}
	}
}

// deathHeaders are the headers that name the first and the last death (DL-34), and count them. The list
// of deaths itself has its own field, so x-death is not among them.
func deathHeaders(m *message.Message) message.Table {
	if len(m.Deaths) == 0 {
		return nil
	}
	t := message.DeathHeaders(m)
	kept := t[:0]
	for _, f := range t {
		if strings.HasPrefix(f.Name, "x-first-") || strings.HasPrefix(f.Name, "x-last-") || f.Name == "x-death-count" {
			kept = append(kept, f)
		}
	}
	return kept
}

// toDeath converts a death; a TTL of 0 and no TTL are different.
func toDeath(d *message.Death) *brokerv1.Death {
	out := &brokerv1.Death{
		Queue: valid(d.Queue), Reason: d.Reason, Count: d.Count, FirstTimeMs: d.FirstTimeMs, LastTimeMs: d.LastTimeMs,
		Exchange: valid(d.Exchange), RoutingKeys: make([]string, len(d.RoutingKeys)),
		DeliveryCount: d.DeliveryCount, AcquiredCount: d.AcquiredCount,
	}
	for i, k := range d.RoutingKeys {
		out.RoutingKeys[i] = valid(k)
	}
	if d.HasTTL {
		ttl := uint64(max(d.TTLMs, 0))
		out.TtlMs = &ttl
	}
	return out
}

// outcome reads the client's decision.
func outcome(o brokerv1.Outcome) broker.Outcome {
	switch o {
	case brokerv1.Outcome_OUTCOME_ACK:
		return broker.Ack
	case brokerv1.Outcome_OUTCOME_REQUEUE:
		return broker.Requeue
	case brokerv1.Outcome_OUTCOME_DISCARD:
		return broker.Discard
	case brokerv1.Outcome_OUTCOME_UNSPECIFIED:
	}
	return 0
}
