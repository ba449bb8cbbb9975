package main

import (
	"encoding/json"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// integers makes whole numbers of JSON integers of AMQP, in lists and tables too.
func integers(t amqp.Table) amqp.Table {
	for k, v := range t {
		t[k] = integer(v)
	}
	return t
}

// integer makes int64 of a float64 that is whole: JSON knows no integers, AMQP distinguishes them.
func integer(v any) any {
	switch v := v.(type) {
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	case []any:
		for i := range v {
			v[i] = integer(v[i])
		}
	case map[string]any:
		return integers(v)
	}
	return v
}

// publishing makes a message of a command.
func publishing(c *command) (amqp.Publishing, error) {
	m := amqp.Publishing{Headers: integers(c.Headers), Body: []byte(c.Body)}
	for name, v := range c.Props {
		text, _ := v.(string)
		number, _ := v.(float64)
		switch name {
		case "content_type":
			m.ContentType = text
		case "content_encoding":
			m.ContentEncoding = text
		case "delivery_mode":
			m.DeliveryMode = uint8(number)
		case "priority":
			m.Priority = uint8(number)
		case "correlation_id":
			m.CorrelationId = text
		case "reply_to":
			m.ReplyTo = text
		case "expiration":
			m.Expiration = text
		case "message_id":
			m.MessageId = text
		case "timestamp":
			m.Timestamp = time.Unix(int64(number), 0)
		case "type":
			m.Type = text
		case "user_id":
			m.UserId = text
		case "app_id":
			m.AppId = text
		default:
			return m, fmt.Errorf("unknown property %s", name)
		}
	}
	return m, nil
}

// message is a delivery in the form in which scenarios expect it.
func message(d *amqp.Delivery) object {
	return object{
		"tag": d.DeliveryTag, "body": string(d.Body), "redelivered": d.Redelivered, "exchange": d.Exchange, "key": d.RoutingKey,
		"headers": plain(d.Headers),
		"props": properties(amqp.Publishing{
			ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: d.DeliveryMode, Priority: d.Priority,
			CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, Expiration: d.Expiration, MessageId: d.MessageId,
			Timestamp: d.Timestamp, Type: d.Type, UserId: d.UserId, AppId: d.AppId,
		}),
	}
}

// returned is a returned message in the form in which scenarios expect it.
func returned(r *amqp.Return) object {
	return object{
		"code": r.ReplyCode, "text": r.ReplyText, "body": string(r.Body), "exchange": r.Exchange, "key": r.RoutingKey,
		"headers": plain(r.Headers),
	}
}

// properties are those that are set.
func properties(m amqp.Publishing) object {
	all := object{}
	for name, v := range map[string]string{
		"content_type": m.ContentType, "content_encoding": m.ContentEncoding, "correlation_id": m.CorrelationId,
		"reply_to": m.ReplyTo, "expiration": m.Expiration, "message_id": m.MessageId, "type": m.Type,
		"user_id": m.UserId, "app_id": m.AppId,
	} {
		if v != "" {
			all[name] = v
		}
	}
	if m.DeliveryMode != 0 {
		all["delivery_mode"] = m.DeliveryMode
	}
	if m.Priority != 0 {
		all["priority"] = m.Priority
	}
	if !m.Timestamp.IsZero() {
		all["timestamp"] = m.Timestamp.Unix()
	}
	return all
}

// plain makes values that JSON has of those of AMQP.
func plain(v any) any {
	switch v := v.(type) {
	case amqp.Table:
		out := object{}
		for k, x := range v {
			out[k] = plain(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plain(v[i])
		}
		return out
	case []byte:
		return string(v)
	case time.Time:
		return v.Unix()
	case amqp.Decimal:
		return json.Number(fmt.Sprintf("%de-%d", v.Value, v.Scale))
	}
	return v
}
