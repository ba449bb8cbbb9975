package message_test

import (
	"math"

	"github.com/quorate/quorate/message"
)

// everyValue has one value of each kind, with the edges of their ranges.
func everyValue() message.Table {
	return message.Table{
		{Name: "null", Value: message.Null()},
		{Name: "true", Value: message.Bool(true)},
		{Name: "false", Value: message.Bool(false)},
		{Name: "int8", Value: message.Int8(math.MinInt8)},
		{Name: "uint8", Value: message.Uint8(math.MaxUint8)},
		{Name: "int16", Value: message.Int16(math.MinInt16)},
		{Name: "uint16", Value: message.Uint16(math.MaxUint16)},
		{Name: "int32", Value: message.Int32(math.MinInt32)},
		{Name: "uint32", Value: message.Uint32(math.MaxUint32)},
		{Name: "int64", Value: message.Int64(math.MinInt64)},
		{Name: "uint64", Value: message.Uint64(math.MaxUint64)},
		{Name: "float32", Value: message.Float32(1.5)},
		{Name: "float64", Value: message.Float64(math.Inf(-1))},
		{Name: "decimal", Value: message.Decimal(2, -314)},
		{Name: "string", Value: message.String("grüß")},
		{Name: "bytes", Value: message.Bytes([]byte{0, 255})},
		{Name: "timestamp", Value: message.Timestamp(1_700_000_000)},
		{Name: "table", Value: message.TableValue(message.Table{{Name: "inner", Value: message.Int8(1)}})},
		{Name: "empty table", Value: message.TableValue(nil)},
		{Name: "array", Value: message.Array(message.String("a"), message.Null(), message.Array())},
	}
}

// full has every part of a message.
func full() *message.Message {
	return &message.Message{
		Properties: message.Properties{
			ContentType: "text/plain", ContentEncoding: "gzip", CorrelationID: "c-1", ReplyTo: "answers",
			Expiration: "60000", MessageID: "m-1", Type: "order", UserID: "guest", AppID: "shop",
			Timestamp: 1_700_000_000, DeliveryMode: 2, Priority: 7,
			Has: message.HasHeaders | message.HasContentType | message.HasContentEncoding | message.HasDeliveryMode |
				message.HasPriority | message.HasCorrelationID | message.HasReplyTo | message.HasExpiration |
				message.HasMessageID | message.HasTimestamp | message.HasType | message.HasUserID | message.HasAppID,
		},
		Headers:     everyValue(),
		Exchange:    "orders",
		RoutingKeys: []string{"order.new", "cc", "bcc"},
		BCCCount:    1,
		Deaths: []message.Death{
			{
				Queue: "b", Reason: "expired", Count: 2, FirstTimeMs: 1000, LastTimeMs: 3000, Exchange: "dlx",
				RoutingKeys: []string{"k"}, DeliveryCount: 0, AcquiredCount: 4,
			},
			{
				Queue: "a", Reason: "rejected", Count: 1, FirstTimeMs: 500, LastTimeMs: 500, Exchange: "orders",
				RoutingKeys: []string{"order.new", "cc"}, TTLMs: 60000, HasTTL: true, DeliveryCount: 20, AcquiredCount: 21,
			},
		},
		FirstDeath:  message.DeathOrigin{Queue: "a", Reason: "rejected", Exchange: "orders"},
		LastDeath:   message.DeathOrigin{Queue: "b", Reason: "expired", Exchange: "dlx"},
		Annotations: message.Table{{Name: "x-error", Value: message.String("boom")}},
		Body:        []byte("body"),
	}
}

// plain is what most publishers send.
func plain(bodyBytes int) *message.Message {
	return &message.Message{
		Properties:  message.Properties{ContentType: "application/json", DeliveryMode: 2, MessageID: "0123456789"},
		Exchange:    "orders",
		RoutingKeys: []string{"order.new"},
		Body:        make([]byte, bodyBytes),
	}
}
