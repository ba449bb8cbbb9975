package catalog

import (
	"fmt"
	"slices"
)

// ExchangeDelayed is the type that RabbitMQ's plugin gives exchanges which delay messages. It does
// not route by itself: Resolved returns the type that is stored instead (DLY-2).
const ExchangeDelayed = "x-delayed-message"

// argDelayedType is the type by which such an exchange routes.
const argDelayedType = "x-delayed-type"

// Resolved returns the declaration as it is stored: an exchange of ExchangeDelayed is one of the
// type that its argument x-delayed-type names, and keeps the argument. The error is a *Error.
// Callers resolve before they propose the command; c stays unchanged.
func (c *DeclareExchange) Resolved() (DeclareExchange, error) {
	out := *c
	if c.Type != ExchangeDelayed {
		return out, nil
	}
	v, given := c.Arguments.Get(argDelayedType)
	s, _ := v.AsString()
	if out.Type = ExchangeType(s); slices.Contains(exchangeTypes(), out.Type) {
		return out, nil
	}
	e := &Error{Code: CodePreconditionFailed, Kind: "exchange", Name: c.Name, VHost: c.VHost, Arg: argDelayedType, Value: v.String()}
	if !given {
		e.Value = "none"
	}
	e.Reason = fmt.Sprintf("says how an exchange of type %q routes, want one of %s", ExchangeDelayed, exchangeTypes())
	return DeclareExchange{}, e
}

// Delays reports whether the exchange heeds the header x-delay of messages (DLY-2).
func (x *Exchange) Delays() bool {
	v, _ := x.Arguments.Get(argDelayedType)
	s, is := v.AsString()
	return is && s == string(x.Type)
}

// unknownType advises on a type that this broker does not have.
func unknownType(t ExchangeType) string {
	instead := map[ExchangeType]string{
		"x-recent-history":        "declare a fanout exchange, and have a queue with x-max-length keep the last messages",
		"x-jms-topic":             "declare a topic or headers exchange, and bind by what the selectors ask for",
		"x-message-deduplication": "declare the type that it wraps; over gRPC queues know the repeats of a named publisher",
	}[t]
	if instead != "" {
		return "comes with a plugin of RabbitMQ and is not here; " + instead
	}
	return fmt.Sprintf("unknown exchange type; there are %s", exchangeTypes())
}
