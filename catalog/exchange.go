package catalog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const argAlternateExchange = "alternate-exchange"

// ExchangeArguments returns the names of the arguments of exchanges that the broker gives a meaning
// to, whatever the type. Callers may change the slice.
func ExchangeArguments() []string {
	return []string{argAlternateExchange, argDelayedType, argHashHeader, argHashProperty}
}

// exchange is a record with what routing needs of its bindings. It is replaced, never
// changed.
type exchange struct {
	rec      *Exchange
	bindings int // how many have the exchange as source
	// Of the rest each type has one.
	direct  tree[string, destinations] // by binding key
	all     destinations               // those of fanout, and of types that take one by its place
	topic   *topicNode
	headers headerIndex
	ring    hashRing
	hash    hashInput
}

func newExchange(rec *Exchange) *exchange {
	x := &exchange{rec: rec}
	if rec.Type == ExchangeConsistentHash {
		x.hash, _ = newHashInput(Error{}, rec.Arguments) // was checked
	}
	return x
}

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
		h.exchanges = h.exchanges.set(x.Name, &exchange{rec: &x})
	}
	return h
}

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
	if !slices.Contains(exchangeTypes(), c.Type) {
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
	if c.Type == ExchangeConsistentHash {
		_, err := newHashInput(e, c.Arguments)
		return err
	}
	return nil
}

// equivalent checks a redeclaration (EX-5). Whether it delays counts too (DLY-2), and what a
// consistent hash exchange hashes: where messages go depends on it.
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
		hashed := name == argHashHeader || name == argHashProperty
		return name == argAlternateExchange || name == argDelayedType || hashed && x.Type == ExchangeConsistentHash
	}
	return e.sameArguments(known, c.Arguments, x.Arguments)
}

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

func (h vhost) withoutExchange(name string) vhost {
	h.exchanges = h.exchanges.without(name)
	var doomed []*Binding
	collect := func(b *Binding) bool { doomed = append(doomed, b); return true }
	withPrefix(h.bindings, sourcePrefix(name), collect)
	withPrefix(h.byDestination, destinationPrefix(ToExchange, name), collect)
	return h.withoutBindings(doomed)
}

func defaultExchangeRefused(vhost, what string) *Error {
	return &Error{
		Code: CodeAccessRefused, Kind: "exchange", Name: "", VHost: vhost,
		Reason: "the default exchange cannot " + what + "; every queue is bound to it under its own name",
	}
}

func noExchange(vhost, name string) *Error {
	return &Error{
		Code: CodeNotFound, Kind: "exchange", Name: name, VHost: vhost,
		Reason: "does not exist; declare it first",
	}
}

// with adds a binding of the exchange to what routing needs. The binding was checked.
func (x *exchange) with(ident string, b *Binding, t target) *exchange {
	y := *x
	y.bindings++
	switch x.rec.Type {
	case ExchangeDirect:
		to, _ := y.direct.get(b.Key)
		y.direct = y.direct.set(b.Key, to.set(ident, t))
	case ExchangeFanout, ExchangeModulusHash, ExchangeRandom, ExchangeLocalRandom:
		y.all = y.all.set(b.place(), t)
	case ExchangeTopic:
		y.topic = y.topic.with(topicWords(b.Key), ident, t)
	case ExchangeHeaders:
		y.headers = y.headers.with(ident, newHeaderRule(b.Arguments, t))
	case ExchangeConsistentHash:
		y.ring = y.ring.with(b, t)
	}
	return &y
}

// without takes a binding out again.
func (x *exchange) without(ident string, b *Binding) *exchange {
	y := *x
	y.bindings--
	switch x.rec.Type {
	case ExchangeDirect:
		to, _ := y.direct.get(b.Key)
		if to = to.without(ident); to.len() == 0 {
			y.direct = y.direct.without(b.Key)
		} else {
			y.direct = y.direct.set(b.Key, to)
		}
	case ExchangeFanout, ExchangeModulusHash, ExchangeRandom, ExchangeLocalRandom:
		y.all = y.all.without(b.place())
	case ExchangeTopic:
		y.topic = y.topic.without(topicWords(b.Key), ident)
	case ExchangeHeaders:
		y.headers = y.headers.without(ident)
	case ExchangeConsistentHash:
		y.ring = y.ring.without(b)
	}
	return &y
}
