package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/quorate/quorate/client"
)

// printMessage writes one message of a stream.
func (s *session) printMessage(w io.Writer, r *client.Received) error {
	if s.output != outputTable {
		return s.encodeNext(w, plainMessage(r))
	}
	line := string(r.Body)
	switch {
	case !utf8.Valid(r.Body):
		line = strconv.Quote(line)
	case isTerminal(w):
		line = harmless(line) // programs get the exact body
	}
	for _, d := range r.Deaths {
		line += cell(fmt.Sprintf("  [%s from %s, %d times]", d.Reason, d.Queue, d.Count))
	}
	_, err := fmt.Fprintln(w, line)
	return err
}

// plainMessage is a message for programs. A body that is not text is in body_base64 instead.
func plainMessage(r *client.Received) map[string]any {
	deaths := make([]any, len(r.Deaths))
	for i := range r.Deaths {
		deaths[i] = plainDeath(&r.Deaths[i])
	}
	out := map[string]any{
		"exchange": r.Exchange, "routing_key": r.RoutingKey, "headers": plainTable(r.Headers), "properties": plainProperties(&r.Properties),
		"body": string(r.Body), "redelivered": r.Redelivered, "delivery_count": r.DeliveryCount, "acquired_count": r.AcquiredCount,
		"deaths": deaths, "annotations": plainTable(r.Annotations),
	}
	if !utf8.Valid(r.Body) {
		out["body"], out["body_base64"] = nil, base64.StdEncoding.EncodeToString(r.Body)
	}
	return out
}

// plainPeeked is a message with its state in the queue. The body is null unless it was requested.
func plainPeeked(p *client.Peeked, body bool) map[string]any {
	out := plainMessage(&p.Received)
	if !body {
		out["body"] = nil
	}
	maps.Copy(out, plain(p.State))
	return out
}

// plainProperties has the message's properties without the headers.
func plainProperties(p *client.Properties) map[string]any {
	out := map[string]any{}
	for name, text := range map[string]string{
		"content_type": p.ContentType, "content_encoding": p.ContentEncoding, "correlation_id": p.CorrelationID, "reply_to": p.ReplyTo,
		"message_id": p.MessageID, "type": p.Type, "user_id": p.UserID, "app_id": p.AppID,
	} {
		if text != "" {
			out[name] = text
		}
	}
	if p.DeliveryMode != 0 {
		out["delivery_mode"] = p.DeliveryMode
	}
	if p.Priority != nil {
		out["priority"] = *p.Priority
	}
	if ms, err := strconv.ParseUint(p.Expiration, 10, 64); err == nil {
		out["expiration_ms"] = ms
	}
	if !p.Timestamp.IsZero() {
		out["timestamp"] = p.Timestamp.UTC().Format(time.RFC3339)
	}
	return out
}

// plainDeath gives a death the names of the API. A missing TTL is null, as 0 is a TTL.
func plainDeath(d *client.Death) map[string]any {
	out := map[string]any{
		"queue": d.Queue, "reason": d.Reason, "count": d.Count, "first_time_ms": d.First.UnixMilli(), "last_time_ms": d.Last.UnixMilli(),
		"exchange": d.Exchange, "routing_keys": d.RoutingKeys, "ttl_ms": nil, "delivery_count": d.DeliveryCount, "acquired_count": d.AcquiredCount,
	}
	if d.TTL != nil {
		out["ttl_ms"] = d.TTL.Milliseconds()
	}
	return out
}
