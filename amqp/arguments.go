package amqp

import (
	"fmt"
	"strings"

	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/message"
)

// wordingOfArgument says in RabbitMQ's words what is wrong with a property or argument of a queue's
// declaration; "": RabbitMQ has no words for it.
func wordingOfArgument(e *failure.Error, thing string) string {
	switch {
	case e.Arg == "durable":
		return "invalid property 'non-durable' for " + thing
	case e.Arg == "exclusive":
		return "invalid property 'exclusive-owner' for " + thing
	case e.Arg == "auto_delete":
		return "invalid property 'auto-delete' for " + thing
	case e.Arg == "name" && e.Name == "": // the server may name classic queues
		return "Cannot declare a server-named queue for type rabbit_quorum_queue"
	case !strings.HasPrefix(e.Arg, "x-") || e.Received == nil:
		return ""
	case e.Arg == "x-dead-letter-exchange" && e.Received.Kind() != message.KindString:
		return fmt.Sprintf("invalid type '%s' for arg '%s' in %s", typeName(e.Received.Kind()), e.Arg, thing)
	}
	why := wrongArgument(e.Arg, *e.Received)
	if why == "" {
		why = e.Value + ": " + e.Reason
	}
	return fmt.Sprintf("invalid arg '%s' for %s: %s", e.Arg, thing, why)
}

// wrongArgument returns, as an Erlang term, why RabbitMQ refuses a value of an argument; "":
// RabbitMQ has no reason.
func wrongArgument(name string, v message.Value) string {
	text, isText := v.AsString()
	unacceptable := "{unacceptable_type," + typeName(v.Kind()) + "}"
	why := ""
	switch name {
	case "x-queue-type":
		why = fmt.Sprintf("\"unsupported queue type '%s'\"", text)
	case "x-overflow":
		why = "invalid_overflow"
	case "x-dead-letter-strategy":
		why = "invalid_dlx_strategy"
	case "x-queue-leader-locator":
		why = "invalid_queue_locator_arg"
	case "x-dead-letter-routing-key":
		if why = "routing_key_but_no_dlx_defined"; len(text) > message.MaxNameBytes {
			return ""
		}
	case "x-single-active-consumer":
		return unacceptable
	case "x-expires", "x-message-ttl", "x-max-length", "x-max-length-bytes", "x-max-in-memory-length", "x-max-in-memory-bytes", "x-max-priority",
		"x-consumer-timeout", "x-consumer-disconnected-timeout", "x-quorum-initial-group-size":
		return wrongInteger(name, v)
	}
	if why != "" && !isText {
		return unacceptable
	}
	return why
}

// wrongInteger returns RabbitMQ's complaint about an integer argument: about its type, its sign, or
// its size.
func wrongInteger(name string, v message.Value) string {
	n, isInt := v.AsInt()
	switch {
	case !isInt:
		return wantInteger(v)
	case n < 0:
		return fmt.Sprintf("{value_negative,%d}", n)
	case n == 0:
		return "{value_zero,0}"
	case name == "x-max-priority":
		return fmt.Sprintf("{max_value_exceeded,%d}", n)
	}
	return fmt.Sprintf("{value_too_large,%d}", n)
}

func wantInteger(v message.Value) string { return `"expected integer, got ` + typeName(v.Kind()) + `"` }

// typeName returns RabbitMQ's name for a type of table values.
func typeName(k message.Kind) string {
	switch k {
	case message.KindNull:
		return "void"
	case message.KindInt8:
		return "byte"
	case message.KindUint8:
		return "unsignedbyte"
	case message.KindInt16:
		return "short"
	case message.KindUint16:
		return "unsignedshort"
	case message.KindInt32:
		return "signedint"
	case message.KindUint32:
		return "unsignedint"
	case message.KindInt64, message.KindUint64:
		return "long"
	case message.KindFloat32:
		return "float"
	case message.KindFloat64:
		return "double"
	case message.KindString:
		return "longstr"
	case message.KindBytes:
		return "binary"
	default: // bool, decimal, timestamp, table, array
		return k.String()
	}
}
