package rest

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/quorate/quorate/message"
)

// textProperty is a property of a message that is a text.
type textProperty struct {
	name string
	bit  message.Presence
	of   func(p *message.Properties) *string
}

// textProperties returns the properties that are texts, with AMQP's names.
func textProperties() []textProperty {
	return []textProperty{
		{"content_type", message.HasContentType, func(p *message.Properties) *string { return &p.ContentType }},
		{"content_encoding", message.HasContentEncoding, func(p *message.Properties) *string { return &p.ContentEncoding }},
		{"correlation_id", message.HasCorrelationID, func(p *message.Properties) *string { return &p.CorrelationID }},
		{"reply_to", message.HasReplyTo, func(p *message.Properties) *string { return &p.ReplyTo }},
		{"expiration", message.HasExpiration, func(p *message.Properties) *string { return &p.Expiration }},
		{"message_id", message.HasMessageID, func(p *message.Properties) *string { return &p.MessageID }},
		{"type", message.HasType, func(p *message.Properties) *string { return &p.Type }},
		{"user_id", message.HasUserID, func(p *message.Properties) *string { return &p.UserID }},
		{"app_id", message.HasAppID, func(p *message.Properties) *string { return &p.AppID }},
	}
}

// numberProperty is a property of a message that is a number.
type numberProperty struct {
	name string
	bit  message.Presence
	most int64
	get  func(p *message.Properties) uint64
	set  func(p *message.Properties, n uint64)
}

// numberProperties returns the properties that are numbers, with AMQP's names.
func numberProperties() []numberProperty {
	return []numberProperty{
		{
			"delivery_mode", message.HasDeliveryMode, math.MaxUint8,
			func(p *message.Properties) uint64 { return uint64(p.DeliveryMode) },
			func(p *message.Properties, n uint64) { p.DeliveryMode = uint8(n) },
		},
		{
			"priority", message.HasPriority, math.MaxUint8,
			func(p *message.Properties) uint64 { return uint64(p.Priority) },
			func(p *message.Properties, n uint64) { p.Priority = uint8(n) },
		},
		{
			"timestamp", message.HasTimestamp, math.MaxInt64,
			func(p *message.Properties) uint64 { return p.Timestamp },
			func(p *message.Properties, n uint64) { p.Timestamp = n },
		},
	}
}

// propertiesFrom reads the properties of a message, and returns all faults. It refuses properties that AMQP does not
// have, because they would be lost.
func propertiesFrom(f fields) (p message.Properties, headers message.Table, err error) {
	var errs []error
	known := map[string]bool{"headers": true, "cluster_id": true} // AMQP keeps cluster_id without a meaning
	for _, x := range textProperties() {
		v, err := f.text(x.name, "")
		if known[x.name] = true; f[x.name] != nil {
			p.Has |= x.bit
		}
		*x.of(&p) = v
		errs = append(errs, err)
	}
	for _, x := range numberProperties() {
		n, err := f.upTo(x.name, x.most)
		if known[x.name] = true; f[x.name] != nil {
			p.Has |= x.bit
		}
		x.set(&p, uint64(n))
		errs = append(errs, err)
	}
	headers, err = f.table("headers")
	errs = append(errs, err)
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if !known[name] {
			errs = append(errs, bad("properties", name, "is no property of a message; put it into headers"))
		}
	}
	return p, headers, errors.Join(errs...)
}

// upTo returns a field that is an integer from 0 to most; 0 if it is absent.
func (f fields) upTo(name string, most int64) (int64, error) {
	n, err := f.number(name, 0)
	if err == nil && (n < 0 || n > most) {
		return 0, bad(name, strconv.FormatInt(n, 10), "want 0 to "+strconv.FormatInt(most, 10))
	}
	return n, err
}

// ofProperties returns the properties that a message has, with AMQP's names.
func ofProperties(p *message.Properties, headers message.Table) object {
	out, has := object{}, p.Present()
	for _, x := range textProperties() {
		if has&x.bit != 0 {
			out[x.name] = *x.of(p)
		}
	}
	for _, x := range numberProperties() {
		if has&x.bit != 0 {
			out[x.name] = x.get(p)
		}
	}
	if len(headers) > 0 {
		out["headers"] = headers
	}
	return out
}
