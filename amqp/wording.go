package amqp

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/message"
)

// wording puts an error into the words that clients and people search for: RabbitMQ's, where
// it has some (AM-15).
func wording(e *broker.Error) string {
	thing := fmt.Sprintf("%s '%s' in vhost '%s'", e.Kind, e.Name, e.VHost)
	if text := wordingOfProblem(e, thing); text != "" {
		return text
	}
	isQueue := e.Kind == "queue"
	switch {
	case e.Class == broker.NotFound && (isQueue || e.Kind == "exchange"):
		return "no " + thing
	case e.Class == broker.ResourceLocked && e.Arg == "exclusive":
		return "cannot obtain exclusive access to locked " + thing + ". It could be originally declared " +
			"on another connection or the exclusive property value does not match that of the original declaration."
	case e.Current != "" && e.Class == broker.PreconditionFailed:
		received, current := compared(e)
		return fmt.Sprintf("inequivalent arg '%s' for %s: received %s but current is %s", e.Arg, thing, received, current)
	case e.Class == broker.PreconditionFailed && isQueue:
		if text := wordingOfArgument(e, thing); text != "" {
			return text
		}
	}
	return strings.TrimPrefix(e.Error(), string(e.Class)+": ")
}

// wordingOfProblem returns "" for what is none of the known problems.
func wordingOfProblem(e *broker.Error, thing string) string {
	switch e.Problem {
	case broker.ProblemDefaultExchange:
		return "operation not permitted on the default exchange"
	case broker.ProblemReservedName:
		return fmt.Sprintf("%s name '%s' contains reserved prefix 'amq.*'", e.Kind, e.Name)
	case broker.ProblemSystemExchange:
		return "deletion of system " + thing + " not allowed"
	case broker.ProblemInternalExchange:
		return "cannot publish to internal " + thing
	case broker.ProblemExchangeType:
		return fmt.Sprintf("unknown exchange type '%s'", plainText(e.Value))
	case broker.ProblemQueueType:
		return fmt.Sprintf("invalid arg '%s' for %s of queue type rabbit_quorum_queue", e.Arg, thing)
	case broker.ProblemKeys:
		return fmt.Sprintf("invalid message: {unacceptable_type_in_header,%q,%s}", strings.TrimPrefix(e.Arg, "header "), typeName(e.Received.Kind()))
	case broker.ProblemUserID:
		return fmt.Sprintf("user_id property set to '%s' but authenticated user was '%s'", plainText(e.Value), e.User)
	case broker.ProblemExpiration:
		text := plainText(e.Value)
		return fmt.Sprintf("invalid expiration '%s': %s", text, wrongExpiration(text))
	case broker.ProblemInUse:
		return thing + " in use"
	case broker.ProblemNotEmpty:
		return thing + " not empty"
	case broker.ProblemExclusiveUse:
		return thing + " in exclusive use"
	case broker.ProblemSingleActive:
		return fmt.Sprintf("cannot obtain access to locked %s. basic.get operations are not supported by %s queues with single active consumer", thing, e.Value)
	case broker.ProblemNoRight:
		if e.Arg == "routing_key" {
			thing = fmt.Sprintf("topic '%s' in %s", plainText(e.Value), thing)
		}
		return fmt.Sprintf("%s access to %s refused for user '%s'", e.Right, thing, e.User)
	case broker.ProblemVHostMissing:
		return "vhost " + e.VHost + " not found"
	case broker.ProblemVHostForbidden:
		return fmt.Sprintf("access to vhost '%s' refused for user '%s'", e.VHost, e.User)
	case broker.ProblemLimit:
		return wordingOfLimit(e)
	}
	return ""
}

func wordingOfLimit(e *broker.Error) string {
	switch {
	// RabbitMQ has no such limits.
	case e.Arg == "max-consumers", e.Arg == "max-channels" && e.Kind == "vhost", e.Arg == "max-queues" && e.Kind == "user":
		return ""
	case e.Kind == "queue":
		return fmt.Sprintf("cannot declare queue '%s': queue limit in vhost '%s' (%s) is reached", e.Name, e.VHost, e.Value)
	case e.Kind == "vhost":
		return fmt.Sprintf("access to vhost '%s' refused for user '%s': connection limit (%s) is reached", e.VHost, e.User, e.Value)
	case e.Arg == "max-channels":
		return fmt.Sprintf("number of channels opened for user '%s' has reached the maximum allowed user limit of %s", e.User, e.Value)
	}
	return fmt.Sprintf("connection refused for user '%s': user connection limit (%s) is reached", e.User, e.Value)
}

// plainText undoes the quotes of a value.
func plainText(value string) string {
	if text, err := strconv.Unquote(value); err == nil {
		return text
	}
	return value
}

// wrongExpiration tells why a text is no expiration, as an Erlang term.
func wrongExpiration(text string) string {
	rest := strings.TrimLeft(text, "+-")
	digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	left := rest[len(digits):]
	switch {
	case digits == "" || len(text)-len(rest) > 1:
		return "no_integer"
	case left != "":
		return fmt.Sprintf("{leftover_string,%q}", left)
	case text[0] == '-':
		return "{value_negative,-" + digits + "}"
	}
	return "{value_too_large," + digits + "}"
}

// compared returns what a declaration has and what exists; an argument with its type if it is
// there on one side alone.
func compared(e *broker.Error) (received, current string) {
	switch {
	case e.Received != nil && e.Existing == nil:
		return typed(*e.Received), "none"
	case e.Received == nil && e.Existing != nil:
		return "none", typed(*e.Existing)
	case e.Received != nil:
		return "'" + plainText(e.Received.String()) + "'", "'" + plainText(e.Existing.String()) + "'"
	}
	return "'" + plainText(e.Value) + "'", "'" + plainText(e.Current) + "'"
}

func typed(v message.Value) string {
	return fmt.Sprintf("the value '%s' of type '%s'", plainText(v.String()), typeName(v.Kind()))
}
