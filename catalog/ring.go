package catalog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quorate/quorate/message"
)

// Arguments of a consistent hash exchange (EX-14).
const (
	argHashHeader   = "hash-header"
	argHashProperty = "hash-property"
)

// Limits of a consistent hash exchange.
const (
	// MaxHashWeight bounds the weight of one binding.
	MaxHashWeight = 1000
	// hashPoints is the number of places on the ring for a weight of 1. More would spread keys more
	// evenly and make a binding cost more.
	hashPoints = 64
)

// hashRing is a consistent hash ring: each binding has places on it in proportion to its
// weight, and a message goes to the place at or after its hash. A binding that comes
// takes messages from all others and one that goes gives them to all others; no other
// message changes its destination.
type hashRing struct {
	input  hashInput
	places tree[uint64, *ringPlace]
}

// ringPlace is one place; places with the same hash form a list in the order of their identity.
type ringPlace struct {
	ident string
	to    target
	next  *ringPlace
}

// newHashRing returns an empty ring, or e completed with what is wrong with the arguments.
func newHashRing(e Error, args message.Table) (index, *Error) {
	in, err := newHashInput(e, args)
	return &hashRing{input: in}, err
}

// with adds the binding's places. Where places of two bindings coincide, the list there keeps both
// in order.
func (r *hashRing) with(b *Binding, _ string, to target) index {
	y, p := *r, &ringPlace{ident: b.place(), to: to}
	eachPlace(b, func(at uint64) {
		here, _ := y.places.get(at)
		y.places = y.places.set(at, here.with(p))
	})
	return &y
}

// without takes the binding's places off the ring and leaves all others where they were.
func (r *hashRing) without(b *Binding, _ string) index {
	y, ident := *r, b.place()
	eachPlace(b, func(at uint64) {
		here, _ := y.places.get(at)
		if here = here.without(ident); here == nil {
			y.places = y.places.without(at)
		} else {
			y.places = y.places.set(at, here)
		}
	})
	return &y
}

func (*hashRing) checkBinding(e Error, c *Bind) *Error {
	_, err := hashWeight(e, c.Key)
	return err
}

func (*hashRing) knownBy(b *Binding) string { return b.place() }

func (*hashRing) miss(b *Binding, p *Publication) (why string, near int) { return places{}.miss(b, p) }

// eachPlace calls f for each place of a binding.
func eachPlace(b *Binding, f func(at uint64)) {
	weight, _ := hashWeight(Error{}, b.Key)
	d := digestStart.text(b.place())
	for i := range weight * hashPoints {
		f(d.number(uint64(i)).sum())
	}
}

// with keeps the list sorted, whatever the order of arrival: equal sets of bindings give equal
// rings.
func (p *ringPlace) with(q *ringPlace) *ringPlace {
	if p == nil {
		return q
	}
	if p.ident == q.ident {
		return p
	}
	if q.ident < p.ident {
		return &ringPlace{q.ident, q.to, p}
	}
	return &ringPlace{p.ident, p.to, p.next.with(q)}
}

// without returns the list without one place. It copies what is before that and shares the rest.
func (p *ringPlace) without(ident string) *ringPlace {
	switch {
	case p == nil:
		return nil
	case p.ident == ident:
		return p.next
	}
	return &ringPlace{p.ident, p.to, p.next.without(ident)}
}

// match takes the first place at or after the hash; behind the last place the ring starts over. Of a list only its
// head gets messages.
func (r *hashRing) match(p *Publication, w *walk) {
	if r.places.len() == 0 {
		return
	}
	at, ok := r.places.ceiling(r.input.of(p))
	if !ok {
		_, at = r.places.at(0)
	}
	w.add(at.ident, at.to)
}

// hashWeight reads the weight in a binding key.
func hashWeight(e Error, key string) (int, *Error) {
	weight, err := strconv.Atoi(key)
	if err == nil && weight >= 1 && weight <= MaxHashWeight {
		return weight, nil
	}
	e.Arg, e.Value = "key", strconv.Quote(key)
	e.Reason = fmt.Sprintf("at an exchange of type x-consistent-hash the key is the weight of the binding, an integer from 1 to %d", MaxHashWeight)
	return 0, &e
}

// hashInput is the part of a message that a consistent hash exchange hashes: a header, a property,
// or otherwise the routing key.
type hashInput struct{ header, property string }

// hashProperties are the properties that can be hashed.
func hashProperties() []string { return []string{"message_id", "correlation_id", "timestamp"} }

// newHashInput reads what the exchange hashes: a header, a property, or neither for the routing key, but not both
// (EX-14).
func newHashInput(e Error, args message.Table) (in hashInput, _ *Error) {
	for _, a := range []struct {
		name string
		to   *string
	}{{argHashHeader, &in.header}, {argHashProperty, &in.property}} {
		v, ok := args.Get(a.name)
		if !ok {
			continue
		}
		s, isString := v.AsString()
		if *a.to = s; !isString || s == "" {
			e.Arg, e.Value, e.Reason = a.name, v.String(), "want a name as a string that is not empty, have "+v.Kind().String()
			return in, &e
		}
	}
	e.Arg, e.Value = argHashProperty, strconv.Quote(in.property)
	if in.header != "" && in.property != "" {
		e.Reason = "stands beside " + argHashHeader + "; give one of them"
		return in, &e
	}
	if in.property != "" && !slices.Contains(hashProperties(), in.property) {
		e.Reason = "want one of " + strings.Join(hashProperties(), ", ")
		return in, &e
	}
	return in, nil
}

// of returns the hash of that part of a message; a missing part is hashed as the empty text.
func (in hashInput) of(p *Publication) uint64 {
	switch {
	case in.header != "":
		v, _ := p.headers().Get(in.header)
		if s, ok := v.AsString(); ok {
			return hashText(s)
		}
		if v.IsNull() {
			return hashText("")
		}
		return digestStart.value(v).sum()
	case in.property == "":
		return hashText(p.primaryKey())
	case p.Properties == nil:
		return hashText("")
	}
	switch in.property {
	case "message_id":
		return hashText(p.Properties.MessageID)
	case "correlation_id":
		return hashText(p.Properties.CorrelationID)
	}
	return digestStart.number(p.Properties.Timestamp).sum()
}
