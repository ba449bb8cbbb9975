package broker

import (
	"errors"
	"strings"

	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
)

// Problem is a mistake that a protocol may have its own words for. The Error's other fields
// name the thing, the argument and its value; the zero value stands for all other mistakes.
type Problem uint8

// The problems.
const (
	// ProblemDefaultExchange: the default exchange was to be changed or bound (EX-3).
	ProblemDefaultExchange Problem = iota + 1
	// ProblemReservedName: a thing of a name that begins with "amq." was to be made (EX-2).
	ProblemReservedName
	// ProblemSystemExchange: an exchange of such a name was to be deleted.
	ProblemSystemExchange
	// ProblemInternalExchange: a client published to an internal exchange (EX-4).
	ProblemInternalExchange
	// ProblemExchangeType: there is no such type of exchanges; Value is the type, quoted.
	ProblemExchangeType
	// ProblemQueueType: the argument is not one of quorum queues.
	ProblemQueueType
	// ProblemKeys: the header that Arg names holds, by Received, no routing keys (MSG-8).
	ProblemKeys
	// ProblemUserID: user_id is another name than User's (MSG-3); Value is user_id, quoted.
	ProblemUserID
	// ProblemExpiration: the expiration cannot be read (MSG-4); Value is it, quoted.
	ProblemExpiration
	// ProblemInUse and ProblemNotEmpty: the thing was to be deleted only if it is neither.
	ProblemInUse
	ProblemNotEmpty
	// ProblemExclusiveUse: an exclusive consumer and another one (CO-2).
	ProblemExclusiveUse
	// ProblemSingleActive: a get of a queue with a single active consumer (DEL-5); Value is
	// the queue's type.
	ProblemSingleActive
	// ProblemNoRight: User lacks Right at the thing (VH-6); with Arg "routing_key", at the key
	// Value of it, quoted (VH-8).
	ProblemNoRight
	// ProblemVHostMissing and ProblemVHostForbidden: there is no such vhost; User may do nothing
	// in it.
	ProblemVHostMissing
	ProblemVHostForbidden
	// ProblemLimit: the user or vhost would have more than the limit Arg of Value (VH-4, VH-17).
	ProblemLimit
)

// Arguments as errors of the packages below name them.
const (
	argMaxQueues = "max-queues" // the limit of a vhost, and of a user
	argHeader    = "header "    // with the header's name behind it
)

func defaultExchangeRefused(vhost string) *Error {
	return &Error{
		Class: AccessRefused, VHost: vhost, Kind: "exchange", Problem: ProblemDefaultExchange,
		Reason: "the default exchange cannot be declared, deleted or bound; every queue is bound to it under its own name",
	}
}

// aboutDeclaration adds to a refusal by the catalog what it says of the arguments of a
// declaration, and of those of the thing that exists.
func aboutDeclaration(err error, received, existing message.Table) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Class != PreconditionFailed {
		return err
	}
	switch {
	case e.Current == "":
		e.Received = valueOf(received, e.Arg)
	case e.Arg != argument.QueueType: // which each queue has, named or not
		e.Received, e.Existing = valueOf(received, e.Arg), valueOf(existing, e.Arg)
	}
	switch {
	case e.Arg == argMaxQueues:
		e.Problem = ProblemLimit
	case e.Kind == "exchange" && e.Arg == "type" && e.Current == "":
		e.Problem = ProblemExchangeType
	}
	return err
}

// aboutKeys adds the value of the header that holds no routing keys.
func aboutKeys(err error, headers message.Table) error {
	if e, ok := errors.AsType[*Error](err); ok {
		e.Problem, e.Received = ProblemKeys, valueOf(headers, strings.TrimPrefix(e.Arg, argHeader))
	}
	return err
}

func valueOf(t message.Table, name string) *message.Value {
	v, there := t.Get(name)
	if !there {
		return nil
	}
	return &v
}

// argumentsOf returns those of an exchange or queue that there may be.
func argumentsOf(v *catalog.View, t thing) message.Table {
	if t.kind == "exchange" {
		if x, ok := v.Exchange(t.vhost, t.name); ok {
			return x.Arguments
		}
	} else if q, ok := v.Queue(t.vhost, t.name); ok {
		return q.Arguments
	}
	return nil
}
