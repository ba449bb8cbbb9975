package cases

import (
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/client"
)

func tableOf(t client.Table) amqp.Table {
	if len(t) == 0 {
		return nil
	}
	out := make(amqp.Table, len(t))
	for n, v := range t {
		out[n] = fieldOf(v)
	}
	return out
}

func fieldOf(v any) any {
	switch v := v.(type) {
	case client.Table:
		return tableOf(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = fieldOf(v[i])
		}
		return out
	case int:
		return int64(v)
	case uint64:
		return int64(v) // AMQP has no unsigned ones of 64 bits
	}
	return v
}

// plainOf is fieldOf backwards.
func plainOf(v any) any {
	switch v := v.(type) {
	case amqp.Table:
		return plainTableOf(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plainOf(v[i])
		}
		return out
	}
	return v
}

func plainTableOf(t amqp.Table) client.Table {
	if len(t) == 0 {
		return nil
	}
	out := make(client.Table, len(t))
	for n, v := range t {
		out[n] = plainOf(v)
	}
	return out
}

func publishingOf(m client.Message) amqp.Publishing {
	p := amqp.Publishing{
		Headers: tableOf(m.Headers), ContentType: m.ContentType, ContentEncoding: m.ContentEncoding, DeliveryMode: m.DeliveryMode,
		CorrelationId: m.CorrelationID, ReplyTo: m.ReplyTo, Expiration: m.Expiration, MessageId: m.MessageID,
		Timestamp: m.Timestamp, Type: m.Type, UserId: m.UserID, AppId: m.AppID, Body: m.Body,
	}
	if m.Priority != nil {
		p.Priority = *m.Priority
	}
	return p
}

// receivedOf reads a delivery: what the broker writes into headers goes where gRPC has it.
func receivedOf(d *amqp.Delivery) client.Received {
	r := client.Received{
		Exchange: d.Exchange, RoutingKey: d.RoutingKey, Body: d.Body, Redelivered: d.Redelivered,
		Properties: client.Properties{
			ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: d.DeliveryMode,
			CorrelationID: d.CorrelationId, ReplyTo: d.ReplyTo, Expiration: d.Expiration, MessageID: d.MessageId,
			Timestamp: d.Timestamp, Type: d.Type, UserID: d.UserId, AppID: d.AppId,
		},
	}
	if d.Priority > 0 {
		r.Priority = client.Priority(d.Priority)
	}
	h := plainTableOf(d.Headers)
	r.DeliveryCount, r.AcquiredCount = uint32(number(h["x-delivery-count"])), uint32(number(h["x-acquired-count"])) // counts
	if all, ok := h["x-death"].([]any); ok {
		for _, one := range all {
			if t, ok := one.(client.Table); ok {
				r.Deaths = append(r.Deaths, deathOf(t))
			}
		}
	}
	r.Headers = h
	return r
}

func deathOf(t client.Table) client.Death {
	d := client.Death{Count: uint64(number(t["count"]))} // a count
	d.Queue, _ = t["queue"].(string)
	d.Reason, _ = t["reason"].(string)
	d.Exchange, _ = t["exchange"].(string)
	d.First, _ = t["time"].(time.Time)
	keys, _ := t["routing-keys"].([]any)
	for _, k := range keys {
		if s, ok := k.(string); ok {
			d.RoutingKeys = append(d.RoutingKeys, s)
		}
	}
	if text, ok := t["original-expiration"].(string); ok {
		if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
			ttl := time.Duration(ms) * time.Millisecond
			d.TTL = &ttl
		}
	}
	return d
}

func number(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case int32:
		return int64(v)
	case int16:
		return int64(v)
	}
	return 0
}
