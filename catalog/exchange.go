package catalog

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const argAlternateExchange = "alternate-exchange"

// ExchangeArguments returns the names of the exchange arguments that have a meaning for any type.
// Callers may change the slice.
func ExchangeArguments() []string {
	all := []string{argAlternateExchange, argDelayedType}
	for i := range exchangeKinds {
		all = append(all, exchangeKinds[i].arguments...)
	}
	return all
}

// HasTopicKeys reports whether topic permissions bound the keys of the exchange's messages and bindings (VH-8).
func (x *Exchange) HasTopicKeys() bool { return typeNamed(x.Type).topicKeys }

// RoutesByHeaders reports whether the headers of a message and the arguments of a binding decide if it matches.
func (x *Exchange) RoutesByHeaders() bool { return typeNamed(x.Type).byHeaders }

// exchange is a record with the routing index of its bindings. It is replaced, never changed.
type exchange struct {
	rec      *Exchange
	bindings int // number of bindings with the exchange as source
	index    index
}

// newExchange returns an exchange without bindings. Its type and arguments were checked.
func newExchange(rec *Exchange) *exchange {
	x := &exchange{rec: rec, index: defaultIndex{}}
	if rec.Name != "" {
		x.index, _ = typeNamed(rec.Type).empty(Error{}, rec.Arguments)
	}
	return x
}

// newVHost returns a vhost with the pre-declared exchanges (EX-2).
func newVHost(rec *VHost) vhost {
	h := vhost{rec: rec}
	for _, x := range []Exchange{
		{Name: "", Type: ExchangeDirect},
		{Name: "amq.direct", Type: ExchangeDirect},
		{Name: "amq.fanout", Type: ExchangeFanout},
		{Name: "amq.headers", Type: ExchangeHeaders},
		{Name: "amq.match", Type: ExchangeHeaders},
		{Name: "amq.rabbitmq.trace", Type: ExchangeTopic, Internal: true},
		{Name: "amq.topic", Type: ExchangeTopic},
	} {
		x.VHost, x.Durable, x.Predeclared = rec.Name, true, true
		h.exchanges = h.exchanges.set(x.Name, newExchange(&x))
	}
	return h
}

// declareExchange creates the exchange or compares with the one that exists (EX-5). The comparison
// comes before the checks of the name, so redeclaring a pre-declared exchange as it is succeeds.
func (v *View) declareExchange(c *DeclareExchange) (Reply, *Error) {
	h, ok := v.vhosts.get(c.VHost)
	if !ok {
		return Reply{}, noVHost(c.VHost)
	}
	if c.Name == "" {
		return Reply{}, defaultExchangeRefused(c.VHost, "be declared")
	}
	if old, exists := h.exchanges.get(c.Name); exists {
		return Reply{}, old.rec.equivalent(c)
	}
	e := Error{Code: CodePreconditionFailed, Kind: "exchange", Name: c.Name, VHost: c.VHost}
	switch {
	case strings.HasPrefix(c.Name, "amq."):
		e.Code = CodeAccessRefused
		e.Reason = `names that start with "amq." are reserved; choose another`
		return Reply{}, &e
	case !e.nameFits(c.Name):
		return Reply{}, &e
	}
	if typeNamed(c.Type) == nil {
		e.Arg, e.Value = "type", strconv.Quote(string(c.Type))
		e.Reason = unknownType(c.Type)
		return Reply{}, &e
	}
	if err := checkExchangeArguments(e, c); err != nil {
		return Reply{}, err
	}
	rec := &Exchange{
		VHost: c.VHost, Name: c.Name, Type: c.Type, Durable: c.Durable,
		AutoDelete: c.AutoDelete, Internal: c.Internal, Arguments: c.Arguments,
	}
	h.exchanges = h.exchanges.set(c.Name, newExchange(rec))
	v.vhosts = v.vhosts.set(c.VHost, h)
	return Reply{Created: true}, nil
}

// checkExchangeArguments checks the arguments of all types, then by trial the type's own: empty is
// the only code that knows them.
func checkExchangeArguments(e Error, c *DeclareExchange) *Error {
	if err := checkArguments(e, c.Arguments); err != nil {
		return err
	}
	if ae, ok := c.Arguments.Get(argAlternateExchange); ok {
		if _, isString := ae.AsString(); !isString {
			e.Arg, e.Value = argAlternateExchange, ae.String()
			e.Reason = "want the name of an exchange as a string, have " + ae.Kind().String()
			return &e
		}
	}
	_, err := typeNamed(c.Type).empty(e, c.Arguments)
	return err
}

// equivalent checks a redeclaration (EX-5). It also compares whether the exchange delays (DLY-2),
// and the arguments that its type routes by.
func (x *Exchange) equivalent(c *DeclareExchange) *Error {
	e := Error{Code: CodePreconditionFailed, Kind: "exchange", Name: x.Name, VHost: x.VHost}
	if c.Type != x.Type {
		return e.inequivalent("type", strconv.Quote(string(c.Type)), strconv.Quote(string(x.Type)))
	}
	for _, p := range [...]struct {
		name              string
		received, current bool
	}{
		{"durable", c.Durable, x.Durable},
		{"auto_delete", c.AutoDelete, x.AutoDelete},
		{"internal", c.Internal, x.Internal},
	} {
		if p.received != p.current {
			return e.inequivalent(p.name, strconv.FormatBool(p.received), strconv.FormatBool(p.current))
		}
	}
	known := func(name string) bool {
		return name == argAlternateExchange || name == argDelayedType || slices.Contains(typeNamed(x.Type).arguments, name)
	}
	return e.sameArguments(known, c.Arguments, x.Arguments)
}

// deleteExchange removes the exchange with the bindings from it and to it (EX-6). if_unused checks only bindings from
// it, as in RabbitMQ.
func (v *View) deleteExchange(c *DeleteExchange) (Reply, *Error) {
	h, ok := v.vhosts.get(c.VHost)
	if !ok {
		return Reply{}, noVHost(c.VHost)
	}
	x, ok := h.exchanges.get(c.Name)
	if !ok {
		return Reply{}, nil
	}
	e := Error{Kind: "exchange", Name: c.Name, VHost: c.VHost}
	if x.rec.Predeclared {
		e.Code, e.Reason = CodeAccessRefused, "is pre-declared and cannot be deleted"
		return Reply{}, &e
	}
	if c.IfUnused && x.bindings > 0 {
		e.Code, e.Arg, e.Value = CodePreconditionFailed, "if_unused", "true"
		e.Reason = fmt.Sprintf("in use as the source of %d bindings; unbind them first", x.bindings)
		return Reply{}, &e
	}
	v.vhosts = v.vhosts.set(c.VHost, h.withoutExchange(c.Name))
	return Reply{Deleted: true}, nil
}

// withoutExchange collects the bindings by prefix in both orders; a binding of the exchange to
// itself turns up twice, which withoutBindings must bear.
func (h vhost) withoutExchange(name string) vhost {
	h.exchanges = h.exchanges.without(name)
	var doomed []*Binding
	collect := func(b *Binding) bool { doomed = append(doomed, b); return true }
	withPrefix(h.bindings, sourcePrefix(name), collect)
	withPrefix(h.byDestination, destinationPrefix(ToExchange, name), collect)
	return h.withoutBindings(doomed)
}

// defaultExchangeRefused words the refusal to change the default exchange; what completes "cannot".
func defaultExchangeRefused(vhost, what string) *Error {
	return &Error{
		Code: CodeAccessRefused, Kind: "exchange", Name: "", VHost: vhost,
		Reason: "the default exchange cannot " + what + "; every queue is bound to it under its own name",
	}
}

// noExchange is the error for an exchange that does not exist.
func noExchange(vhost, name string) *Error {
	return &Error{
		Code: CodeNotFound, Kind: "exchange", Name: name, VHost: vhost,
		Reason: "does not exist; declare it first",
	}
}

// with adds a binding to the exchange's index. The binding was checked.
func (x *exchange) with(ident string, b *Binding, to target) *exchange {
	return &exchange{rec: x.rec, bindings: x.bindings + 1, index: x.index.with(b, ident, to)}
}

// without removes a binding from the index.
func (x *exchange) without(ident string, b *Binding) *exchange {
	return &exchange{rec: x.rec, bindings: x.bindings - 1, index: x.index.without(b, ident)}
}

// keepExchanges takes over the records of exchanges that are in an older view as they are in this one, which nobody has
// seen yet. One that was deleted and declared again in between, as it was, passes for the same.
func (v *View) keepExchanges(old *View) {
	v.vhosts.each(func(name string, h vhost) bool {
		before, exists := old.vhosts.get(name)
		if !exists {
			return true
		}
		h.exchanges.each(func(name string, x *exchange) bool {
			if was, exists := before.exchanges.get(name); exists && bytes.Equal(appendExchange(nil, was.rec), appendExchange(nil, x.rec)) {
				x.rec = was.rec
			}
			return true
		})
		return true
	})
}
