package catalog_test

import (
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
)

// DLY-2: which exchanges hold messages back.
func TestDelays(t *testing.T) {
	t.Parallel()
	of := func(v message.Value) message.Table { return message.Table{{Name: "x-delayed-type", Value: v}} }
	for name, row := range map[string]struct {
		kind   catalog.ExchangeType
		args   message.Table
		want   catalog.ExchangeType // "": refused
		delays bool
	}{
		"of RabbitMQ":        {"x-delayed-message", of(message.String("fanout")), "fanout", true},
		"of a hash":          {"x-delayed-message", of(message.String("x-consistent-hash")), "x-consistent-hash", true},
		"as it is stored":    {"topic", of(message.String("topic")), "topic", true},
		"plain":              {"topic", nil, "topic", false},
		"of two types":       {"topic", of(message.String("direct")), "topic", false},
		"of no type":         {"x-delayed-message", nil, "", false},
		"of an unknown type": {"x-delayed-message", of(message.String("odd")), "", false},
		"of a number":        {"x-delayed-message", of(message.Int8(1)), "", false},
	} {
		given := catalog.DeclareExchange{VHost: "/", Name: "x", Type: row.kind, Arguments: row.args}
		got, err := given.Resolved()
		if (err == nil) != (row.want != "") || err == nil && got.Type != row.want || given.Type != row.kind {
			t.Errorf("%s: %+v, %v; want type %q", name, got, err, row.want)
			continue
		}
		x := catalog.Exchange{Type: got.Type, Arguments: got.Arguments}
		if err == nil && x.Delays() != row.delays {
			t.Errorf("%s: delays %v", name, x.Delays())
		}
	}
}
