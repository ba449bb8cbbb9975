package client

import (
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// Message is a message to publish. The client does not change it, and the caller must not change
// Body or Headers before the message is answered.
type Message struct {
	VHost      string // "": "/"
	Exchange   string // "": the default exchange, RoutingKey is the queue's name (EX-3)
	RoutingKey string
	Properties
	Body []byte
	// Mandatory asks for the outcome Returned when no queue is routed to (PUB-3).
	Mandatory bool
	// DeliverAt, or else Delay, both in whole milliseconds, is when the message becomes ready in its
	// queues. It is confirmed at once, and its TTL begins when it is ready (DLY-1). Zero: at once.
	DeliverAt time.Time
	Delay     time.Duration
}

// Properties are AMQP's basic properties (MSG-1); a zero value is an absent property.
type Properties struct {
	ContentType     string
	ContentEncoding string
	Headers         Table
	DeliveryMode    uint8
	Priority        *uint8 // nil: none, which ranks as 4 (PR-1)
	CorrelationID   string
	ReplyTo         string
	// Expiration is the message's TTL: decimal milliseconds (MSG-4). See TTL.
	Expiration string
	MessageID  string
	Timestamp  time.Time // whole seconds
	Type       string
	UserID     string
	AppID      string
}

// TTL returns d as a value for Properties.Expiration, in whole milliseconds.
func TTL(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// Priority returns p as a value for Properties.Priority.
func Priority(p uint8) *uint8 { return &p }

// proto converts the message. If the routing key is not valid UTF-8, it is also sent as bytes,
// beside its readable form.
func (m *Message) proto() (*brokerv1.Message, error) {
	p, err := m.Properties.proto()
	if err != nil {
		return nil, err
	}
	key, raw := shown(m.RoutingKey)
	return &brokerv1.Message{
		Vhost: m.VHost, Exchange: m.Exchange, RoutingKey: key, RawRoutingKey: raw,
		Properties: p, Body: m.Body, Mandatory: m.Mandatory,
		DeliverAtMs: atMs(m.DeliverAt), DelayMs: delayMs(m.DeliverAt, m.Delay),
	}, nil
}

// atMs converts a time for the API; 0: none.
func atMs(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// delayMs converts a delay for the API unless a time takes precedence.
func delayMs(at time.Time, d time.Duration) int64 {
	if !at.IsZero() || d == 0 {
		return 0
	}
	return (d + time.Millisecond - 1).Milliseconds()
}

// none reports whether no property is set.
func (p *Properties) none() bool {
	return p.ContentType == "" && p.ContentEncoding == "" && p.Headers == nil && p.DeliveryMode == 0 && p.Priority == nil &&
		p.CorrelationID == "" && p.ReplyTo == "" && p.Expiration == "" && p.MessageID == "" && p.Timestamp.IsZero() &&
		p.Type == "" && p.UserID == "" && p.AppID == ""
}

// proto converts the properties that are set; nil: there are none. The broker distinguishes an absent property
// from an empty one (MSG-1). Times before 1970 become 0.
func (p *Properties) proto() (*brokerv1.Properties, error) {
	if p.none() {
		return nil, nil
	}
	headers, err := p.Headers.proto()
	if err != nil {
		return nil, fmt.Errorf("client: headers: %w", err)
	}
	out := &brokerv1.Properties{
		ContentType: optional(p.ContentType), ContentEncoding: optional(p.ContentEncoding), Headers: headers,
		CorrelationId: optional(p.CorrelationID), ReplyTo: optional(p.ReplyTo), Expiration: optional(p.Expiration),
		MessageId: optional(p.MessageID), Type: optional(p.Type), UserId: optional(p.UserID), AppId: optional(p.AppID),
	}
	out.Raw = rawTexts(out)
	if p.DeliveryMode != 0 {
		mode := uint32(p.DeliveryMode)
		out.DeliveryMode = &mode
	}
	if p.Priority != nil {
		priority := uint32(*p.Priority)
		out.Priority = &priority
	}
	if !p.Timestamp.IsZero() {
		seconds := uint64(max(0, p.Timestamp.Unix()))
		out.Timestamp = &seconds
	}
	return out, nil
}

// texts are the text properties by their names.
func texts(p *brokerv1.Properties) map[string]**string {
	return map[string]**string{
		"content_type": &p.ContentType, "content_encoding": &p.ContentEncoding, "correlation_id": &p.CorrelationId,
		"reply_to": &p.ReplyTo, "expiration": &p.Expiration, "message_id": &p.MessageId, "type": &p.Type, "user_id": &p.UserId,
		"app_id": &p.AppId,
	}
}

// rawTexts extracts the texts that are not UTF-8 (AM-9); nil if there are none, as is usual.
func rawTexts(p *brokerv1.Properties) map[string][]byte {
	usual := true
	for _, s := range [...]*string{
		p.ContentType, p.ContentEncoding, p.CorrelationId, p.ReplyTo, p.Expiration, p.MessageId, p.Type, p.UserId, p.AppId,
	} {
		usual = usual && (s == nil || utf8.ValidString(*s))
	}
	if usual {
		return nil
	}
	out := map[string][]byte{}
	for name, s := range texts(p) {
		if *s != nil && !utf8.ValidString(**s) {
			out[name] = []byte(**s)
			*s = nil
		}
	}
	return out
}

// optional returns nil for the empty text, which stands for an absent property.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// propertiesFromProto puts the exact bytes of texts that are not valid UTF-8 in place of their
// readable form, then reads all.
func propertiesFromProto(p *brokerv1.Properties) Properties {
	if len(p.GetRaw()) > 0 {
		for name, s := range texts(p) {
			if raw, has := p.GetRaw()[name]; has {
				own := string(raw)
				*s = &own
			}
		}
	}
	out := Properties{
		ContentType: p.GetContentType(), ContentEncoding: p.GetContentEncoding(), Headers: tableFromProto(p.GetHeaders()),
		DeliveryMode: uint8(p.GetDeliveryMode()), CorrelationID: p.GetCorrelationId(), ReplyTo: p.GetReplyTo(),
		Expiration: p.GetExpiration(), MessageID: p.GetMessageId(), Type: p.GetType(), UserID: p.GetUserId(), AppID: p.GetAppId(),
	}
	if p.GetPriority() != 0 || (p != nil && p.Priority != nil) {
		out.Priority = Priority(uint8(p.GetPriority()))
	}
	if p != nil && p.Timestamp != nil {
		out.Timestamp = time.Unix(int64(p.GetTimestamp()), 0)
	}
	return out
}

// Death is one way in which a message left a queue, and how often (DL-30).
type Death struct {
	Queue       string
	Reason      string // rejected, expired, maxlen, delivery_limit or queue_deleted
	Count       uint64
	First, Last time.Time
	Exchange    string
	RoutingKeys []string
	TTL         *time.Duration // the message's own TTL, if it had one
	// DeliveryCount and AcquiredCount are the counts when it last left the queue.
	DeliveryCount uint32
	AcquiredCount uint32
}

// deathsFromProto keeps the order, newest first (DL-30).
func deathsFromProto(in []*brokerv1.Death) []Death {
	if len(in) == 0 {
		return nil
	}
	out := make([]Death, 0, len(in))
	for _, p := range in {
		d := Death{
			Queue: p.GetQueue(), Reason: p.GetReason(), Count: p.GetCount(),
			First: time.UnixMilli(p.GetFirstTimeMs()), Last: time.UnixMilli(p.GetLastTimeMs()),
			Exchange: p.GetExchange(), RoutingKeys: p.GetRoutingKeys(),
			DeliveryCount: p.GetDeliveryCount(), AcquiredCount: p.GetAcquiredCount(),
		}
		if p.TtlMs != nil {
			ttl := time.Duration(p.GetTtlMs()) * time.Millisecond
			d.TTL = &ttl
		}
		out = append(out, d)
	}
	return out
}
