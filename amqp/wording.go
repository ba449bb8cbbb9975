package amqp

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/message"
)

// wording puts an error into the words that clients and operators search for: those of RabbitMQ, if
// it has words for the error (AM-15).
func wording(e *failure.Error) string {
	thing := fmt.Sprintf("%s '%s' in vhost '%s'", e.Kind, e.Name, e.VHost)
	if text := wordingOfProblem(e, thing); text != "" {
		return text
	}
	isQueue := e.Kind == "queue"
	switch {
	case e.Class == failure.NotFound && (isQueue || e.Kind == "exchange"):
		return "no " + thing
	case e.Class == failure.ResourceLocked && e.Arg == "exclusive":
		return "cannot obtain exclusive access to locked " + thing + ". It could be originally declared " +
			"on another connection or the exclusive property value does not match that of the original declaration."
	case e.Current != "" && e.Class == failure.PreconditionFailed:
		received, current := compared(e)
		return fmt.Sprintf("inequivalent arg '%s' for %s: received %s but current is %s", e.Arg, thing, received, current)
	case e.Class == failure.PreconditionFailed && isQueue:
		if text := wordingOfArgument(e, thing); text != "" {
			return text
		}
	}
	return strings.TrimPrefix(e.Error(), string(e.Class)+": ")
}

// wordingOfProblem returns RabbitMQ's words for a known problem, "" for anything else.
func wordingOfProblem(e *failure.Error, thing string) string {
	switch e.Problem {
	case failure.ProblemDefaultExchange:
		return "operation not permitted on the default exchange"
	case failure.ProblemReservedName:
		return fmt.Sprintf("%s name '%s' contains reserved prefix 'amq.*'", e.Kind, e.Name)
	case failure.ProblemSystemExchange:
		return "deletion of system " + thing + " not allowed"
	case failure.ProblemInternalExchange:
		return "cannot publish to internal " + thing
	case failure.ProblemExchangeType:
		return fmt.Sprintf("unknown exchange type '%s'", plainText(e.Value))
	case failure.ProblemQueueType:
		return fmt.Sprintf("invalid arg '%s' for %s of queue type rabbit_quorum_queue", e.Arg, thing)
	case failure.ProblemKeys:
		return fmt.Sprintf("invalid message: {unacceptable_type_in_header,%q,%s}", strings.TrimPrefix(e.Arg, "header "), typeName(e.Received.Kind()))
	case failure.ProblemUserID:
		return fmt.Sprintf("user_id property set to '%s' but authenticated user was '%s'", plainText(e.Value), e.User)
	case failure.ProblemExpiration:
		text := plainText(e.Value)
		return fmt.Sprintf("invalid expiration '%s': %s", text, wrongExpiration(text))
	case failure.ProblemInUse:
		return thing + " in use"
	case failure.ProblemNotEmpty:
		return thing + " not empty"
	case failure.ProblemExclusiveUse:
		return thing + " in exclusive use"
	case failure.ProblemSingleActive:
		return fmt.Sprintf("cannot obtain access to locked %s. basic.get operations are not supported by %s queues with single active consumer", thing, e.Value)
	case failure.ProblemNoRight:
		if e.Arg == "routing_key" {
			thing = fmt.Sprintf("topic '%s' in %s", plainText(e.Value), thing)
		}
		return fmt.Sprintf("%s access to %s refused for user '%s'", e.Right, thing, e.User)
	case failure.ProblemVHostMissing:
		return "vhost " + e.VHost + " not found"
	case failure.ProblemVHostForbidden:
		return fmt.Sprintf("access to vhost '%s' refused for user '%s'", e.VHost, e.User)
	case failure.ProblemLimit:
		return wordingOfLimit(e)
	}
	return ""
}

// wordingOfLimit returns RabbitMQ's words for the refusal by a limit, because clients and operators
// search logs for them; "": RabbitMQ has no such limit.
func wordingOfLimit(e *failure.Error) string {
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

// plainText removes the quotes of a value.
func plainText(value string) string {
	if text, err := strconv.Unquote(value); err == nil {
		return text
	}
	return value
}

// wrongExpiration returns, as an Erlang term, why a text is not an expiration.
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

// compared returns the declared value and the existing one; an argument that only one side has
// comes with its type.
func compared(e *failure.Error) (received, current string) {
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
