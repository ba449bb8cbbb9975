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

// Arguments as errors of the packages below name them.
const (
	argHeader = "header " // with the header's name behind it
)

// defaultExchangeRefused is the refusal before the catalog's, which knows no Problem for AMQP.
func defaultExchangeRefused(vhost string) *failure.Error {
	return &failure.Error{
		Class: failure.AccessRefused, VHost: vhost, Kind: "exchange", Problem: failure.ProblemDefaultExchange,
		Reason: "the default exchange cannot be declared, deleted or bound; every queue is bound to it under its own name",
	}
}

// aboutDeclaration adds to a refusal by the catalog the value of the argument that it names, of a
// declaration, and of those of the thing that exists.
func aboutDeclaration(err error, received, existing message.Table) error {
	e, ok := errors.AsType[*failure.Error](err)
	if !ok || e.Class != failure.PreconditionFailed {
		return err
	}
	switch {
	case e.Current == "":
		e.Received = valueOf(received, e.Arg)
	case e.Arg != argument.QueueType: // which each queue has, named or not
		e.Received, e.Existing = valueOf(received, e.Arg), valueOf(existing, e.Arg)
	}
	switch {
	case e.Arg == limits.Queues: // what exists is too much
		e.Problem, e.State = failure.ProblemLimit, true
	case e.Kind == "exchange" && e.Arg == "type" && e.Current == "":
		e.Problem = failure.ProblemExchangeType
	}
	return err
}

// aboutKeys adds the value of the header that holds no routing keys.
func aboutKeys(err error, headers message.Table) error {
	if e, ok := errors.AsType[*failure.Error](err); ok {
		e.Problem, e.Received = failure.ProblemKeys, valueOf(headers, strings.TrimPrefix(e.Arg, argHeader))
	}
	return err
}

// valueOf returns an argument's value, nil if there is none.
func valueOf(t message.Table, name string) *message.Value {
	v, there := t.Get(name)
	if !there {
		return nil
	}
	return &v
}

// argumentsOf returns those of an exchange or queue that there may be.
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
