package grpcapi

import (
	"math"
	"strconv"
	"strings"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/message"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// vhostOf is the vhost that a request means.
func vhostOf(name string) string {
	if name == "" {
		return broker.DefaultVHost
	}
	return name
}

// setPublish makes a publish of a message of the API; out is overwritten.
func setPublish(out *broker.Publish, m *brokerv1.Message) error {
	p := m.GetProperties()
	*out = broker.Publish{
		VHost: vhostOf(m.GetVhost()), Exchange: m.GetExchange(), RoutingKey: m.GetRoutingKey(),
		Body: m.GetBody(), Mandatory: m.GetMandatory(),
		Delay: broker.Delay{AtMs: m.GetDeliverAtMs(), AfterMs: m.GetDelayMs()},
	}
	if p == nil {
		return nil
	}
	q := &out.Properties
	text := func(dst, src *string, bit message.Presence) {
		if src != nil {
			*dst = *src
			q.Has |= bit
		}
	}
	text(&q.ContentType, p.ContentType, message.HasContentType)
	text(&q.ContentEncoding, p.ContentEncoding, message.HasContentEncoding)
	text(&q.CorrelationID, p.CorrelationId, message.HasCorrelationID)
	text(&q.ReplyTo, p.ReplyTo, message.HasReplyTo)
	text(&q.Expiration, p.Expiration, message.HasExpiration)
	text(&q.MessageID, p.MessageId, message.HasMessageID)
	text(&q.Type, p.Type, message.HasType)
	text(&q.UserID, p.UserId, message.HasUserID)
	text(&q.AppID, p.AppId, message.HasAppID)
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

// toResult makes the API's result of a publish.
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

// setDelivery makes the API's form of a delivery. It refers to d, which must stay
// unchanged while out is in use.
func setDelivery(out *brokerv1.Delivery, props *brokerv1.Properties, d *broker.Delivery) {
	m := &d.Message
	out.DeliveryId = d.ID
	out.Exchange, out.RoutingKey = valid(m.Exchange), valid(m.PrimaryKey())
	out.Body = m.Body
	out.Redelivered, out.DeliveryCount, out.AcquiredCount = d.Redelivered, d.DeliveryCount, d.AcquiredCount
	out.Annotations = toTable(m.Annotations)
	for i := range m.Deaths {
		out.Deaths = append(out.Deaths, toDeath(&m.Deaths[i]))
	}
	setProperties(props, m)
	out.Properties = props
}

func setProperties(out *brokerv1.Properties, m *message.Message) {
	has := m.Present()
	text := func(s *string, bit message.Presence) *string {
		if has&bit == 0 {
			return nil
		}
		*s = valid(*s)
		return s
	}
	out.ContentType = text(&m.ContentType, message.HasContentType)
	out.ContentEncoding = text(&m.ContentEncoding, message.HasContentEncoding)
	out.CorrelationId = text(&m.CorrelationID, message.HasCorrelationID)
	out.ReplyTo = text(&m.ReplyTo, message.HasReplyTo)
	out.Expiration = text(&m.Expiration, message.HasExpiration)
	out.MessageId = text(&m.MessageID, message.HasMessageID)
	out.Type = text(&m.Type, message.HasType)
	out.UserId = text(&m.UserID, message.HasUserID)
	out.AppId = text(&m.AppID, message.HasAppID)
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

// outcome reads what a client decided.
func outcome(o brokerv1.Outcome) broker.Outcome {
	switch o {
	case brokerv1.Outcome_OUTCOME_ACK:
		return broker.Ack
	case brokerv1.Outcome_OUTCOME_RETURN:
		return broker.Return
	case brokerv1.Outcome_OUTCOME_DISCARD:
		return broker.Discard
	case brokerv1.Outcome_OUTCOME_UNSPECIFIED:
	}
	return 0
}
