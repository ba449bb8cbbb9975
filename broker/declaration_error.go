package broker

import (
	"errors"
	"strings"

	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/limits"
	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/message"
)

// How errors of the packages below name arguments.
const (
	argHeader = "header " // followed by the header's name
)

// defaultExchangeRefused refuses a change of the default exchange. The catalog would refuse it too,
// but without the Problem that AMQP needs.
func defaultExchangeRefused(vhost string) *failure.Error {
	return &failure.Error{
		Class: failure.AccessRefused, VHost: vhost, Kind: "exchange", Problem: failure.ProblemDefaultExchange,
		Reason: "the default exchange cannot be declared, deleted or bound; every queue is bound to it under its own name",
	}
}

// aboutDeclaration completes a refusal by the catalog: with the Problem, and with the value of the
// argument at fault, as declared and in the object that exists.
func aboutDeclaration(err error, received, existing message.Table) error {
	e, ok := errors.AsType[*failure.Error](err)
	if !ok || e.Class != failure.PreconditionFailed {
		return err
	}
	switch {
	case e.Current == "":
		e.Received = valueOf(received, e.Arg)
	case e.Arg != argument.QueueType: // every queue has a type, even if its arguments name none
		e.Received, e.Existing = valueOf(received, e.Arg), valueOf(existing, e.Arg)
	}
	switch {
	case e.Arg == limits.Queues: // not the request is at fault, but what exists
		e.Problem, e.State = failure.ProblemLimit, true
	case e.Kind == "exchange" && e.Arg == "type" && e.Current == "":
		e.Problem = failure.ProblemExchangeType
	}
	return err
}

// aboutKeys completes an error about a CC or BCC header that does not hold routing keys: with the
// Problem and the header's value.
func aboutKeys(err error, headers message.Table) error {
	if e, ok := errors.AsType[*failure.Error](err); ok {
		e.Problem, e.Received = failure.ProblemKeys, valueOf(headers, strings.TrimPrefix(e.Arg, argHeader))
	}
	return err
}

// valueOf returns the value of an argument, or nil.
func valueOf(t message.Table, name string) *message.Value {
	v, there := t.Get(name)
	if !there {
		return nil
	}
	return &v
}

// argumentsOf returns the arguments of an exchange or queue, nil if it does not exist.
func argumentsOf(v *catalog.View, t permission.Thing) message.Table {
	if t.Kind == "exchange" {
		if x, ok := v.Exchange(t.VHost, t.Name); ok {
			return x.Arguments
		}
	} else if q, ok := v.Queue(t.VHost, t.Name); ok {
		return q.Arguments
	}
	return nil
}
