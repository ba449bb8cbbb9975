package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
)

// target is what a binding leads to: a queue, or an exchange when uid is 0.
type target struct {
	uid      id.QueueUID
	exchange string
}

// destinations holds targets by the identity of their binding.
type destinations = tree[string, target]

// Order-preserving text keys: a part ends in partEnd, and a zero byte within a part is
// written as zeroByte, so that no part is a prefix of another.
const (
	partEnd  = "\x00\x01"
	zeroByte = "\x00\xff"
)

func keyPart(s string) string {
	return strings.ReplaceAll(s, "\x00", zeroByte) + partEnd
}

func sourcePrefix(source string) string { return keyPart(source) }

func destinationPrefix(kind DestinationKind, name string) string {
	return string('0'+byte(kind)) + keyPart(name)
}

// identity is the binding's key among the bindings of its vhost (EX-13). Bindings that
// differ only in the order of arguments or in the width of integers are the same (C-2).
func (b *Binding) identity() string {
	return sourcePrefix(b.Source) + destinationPrefix(b.DestinationKind, b.Destination) + keyPart(b.Key) +
		canonicalArguments(b.Arguments)
}

func (b *Binding) destinationIdentity() string {
	return destinationPrefix(b.DestinationKind, b.Destination) + sourcePrefix(b.Source) + keyPart(b.Key) +
		canonicalArguments(b.Arguments)
}

// place orders the bindings of one source by destination and key (EX-14).
func (b *Binding) place() string {
	return keyPart(b.Destination) + keyPart(b.Key) + string('0'+byte(b.DestinationKind)) + canonicalArguments(b.Arguments)
}

// canonicalArguments encodes the arguments so that equal ones give equal bytes (C-2); "" for none.
func canonicalArguments(t message.Table) string {
	if len(t) == 0 {
		return ""
	}
	return string(message.AppendTable(nil, canonicalTable(t)))
}

// canonicalTable sorts by name and widens numbers. The sort is stable, because a table may hold a
// name twice.
func canonicalTable(t message.Table) message.Table {
	out := make(message.Table, len(t))
	for i, f := range t {
		out[i] = message.Field{Name: f.Name, Value: canonicalValue(f.Value)}
	}
	slices.SortStableFunc(out, func(a, b message.Field) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// canonicalValue widens every integer to int64 and every float to float64, nested ones included
// (C-2). Unsigned values above int64 stay as they are.
func canonicalValue(v message.Value) message.Value {
	if n, ok := v.AsInt(); ok {
		return message.Int64(n)
	}
	if f, ok := v.AsFloat(); ok {
		return message.Float64(f)
	}
	if t, ok := v.AsTable(); ok {
		return message.TableValue(canonicalTable(t))
	}
	if a, ok := v.AsArray(); ok {
		out := make([]message.Value, len(a))
		for i := range a {
			out[i] = canonicalValue(a[i])
		}
		return message.Array(out...)
	}
	return v
}

// bind adds a binding unless an equal one exists (EX-13). The binding enters both orders of the
// vhost and the index of its source, or none of them.
func (v *View) bind(c *Bind) (Reply, *Error) {
	h, ok := v.vhosts.get(c.VHost)
	if !ok {
		return Reply{}, noVHost(c.VHost)
	}
	if c.Source == "" || (c.DestinationKind == ToExchange && c.Destination == "") {
		return Reply{}, defaultExchangeRefused(c.VHost, "be bound")
	}
	x, ok := h.exchanges.get(c.Source)
	if !ok {
		return Reply{}, noExchange(c.VHost, c.Source)
	}
	t, err := h.target(c)
	if err != nil {
		return Reply{}, err
	}
	e := Error{Code: CodePreconditionFailed, Kind: "binding", Name: c.Source + " → " + c.Destination, VHost: c.VHost}
	if len(c.Key) > MaxKeyBytes {
		e.Arg, e.Reason = "key", fmt.Sprintf("%d bytes, the limit is %d", len(c.Key), MaxKeyBytes)
		return Reply{}, &e
	}
	if err := checkArguments(e, c.Arguments); err != nil {
		return Reply{}, err
	}
	if err := x.index.checkBinding(e, c); err != nil {
		return Reply{}, err
	}
	b := &Binding{
		VHost: c.VHost, Source: c.Source, DestinationKind: c.DestinationKind,
		Destination: c.Destination, Key: c.Key, Arguments: c.Arguments,
	}
	ident := b.identity()
	if _, exists := h.bindings.get(ident); exists {
		return Reply{UID: t.uid}, nil
	}
	h.bindings = h.bindings.set(ident, b)
	h.byDestination = h.byDestination.set(b.destinationIdentity(), b)
	h.exchanges = h.exchanges.set(c.Source, x.with(ident, b, t))
	v.vhosts = v.vhosts.set(c.VHost, h)
	return Reply{UID: t.uid, Created: true}, nil
}

// target resolves the destination of a new binding. It stays valid as long as the
// binding: deleting a queue or exchange removes the bindings that lead to it.
func (h vhost) target(c *Bind) (target, *Error) {
	if c.DestinationKind == ToExchange {
		if _, ok := h.exchanges.get(c.Destination); !ok {
			return target{}, noExchange(c.VHost, c.Destination)
		}
		return target{exchange: c.Destination}, nil
	}
	q, ok := h.queues.get(c.Destination)
	if ok && q.DrainDeleting > 0 {
		return target{}, &Error{
			Code: CodeNotFound, Kind: "queue", Name: c.Destination, VHost: c.VHost,
			Reason: "is being deleted; bind another one, or declare it again when it is gone",
		}
	}
	if !ok {
		return target{}, &Error{
			Code: CodeNotFound, Kind: "queue", Name: c.Destination, VHost: c.VHost,
			Reason: "does not exist; declare it first",
		}
	}
	return target{uid: q.UID}, nil
}

// unbind removes the one binding that is equal in all parts (EX-13).
func (v *View) unbind(c *Unbind) (Reply, *Error) {
	h, ok := v.vhosts.get(c.VHost)
	if !ok {
		return Reply{}, noVHost(c.VHost)
	}
	if c.Source == "" || (c.DestinationKind == ToExchange && c.Destination == "") {
		return Reply{}, defaultExchangeRefused(c.VHost, "be unbound")
	}
	key := Binding{
		Source: c.Source, DestinationKind: c.DestinationKind,
		Destination: c.Destination, Key: c.Key, Arguments: c.Arguments,
	}
	b, ok := h.bindings.get(key.identity())
	if !ok {
		return Reply{}, nil
	}
	v.vhosts = v.vhosts.set(c.VHost, h.withoutBindings([]*Binding{b}))
	return Reply{Deleted: true}, nil
}

// unbindAllTo removes the bindings to a queue or exchange that is being deleted. byDestination finds these bindings
// without a walk over all.
func (h vhost) unbindAllTo(kind DestinationKind, name string) vhost {
	var doomed []*Binding
	withPrefix(h.byDestination, destinationPrefix(kind, name), func(b *Binding) bool {
		doomed = append(doomed, b)
		return true
	})
	return h.withoutBindings(doomed)
}

// withoutBindings removes bindings, and with them the auto-delete exchanges that lose
// their last binding as source (EX-6), and the bindings that led to those.
func (h vhost) withoutBindings(doomed []*Binding) vhost {
	for len(doomed) > 0 {
		b := doomed[len(doomed)-1]
		doomed = doomed[:len(doomed)-1]
		ident := b.identity()
		if _, ok := h.bindings.get(ident); !ok {
			continue
		}
		h.bindings = h.bindings.without(ident)
		h.byDestination = h.byDestination.without(b.destinationIdentity())
		x, ok := h.exchanges.get(b.Source)
		if !ok {
			continue // the source goes together with its bindings
		}
		if x = x.without(ident, b); x.bindings > 0 || !x.rec.AutoDelete {
			h.exchanges = h.exchanges.set(b.Source, x)
			continue
		}
		h.exchanges = h.exchanges.without(b.Source)
		withPrefix(h.byDestination, destinationPrefix(ToExchange, b.Source), func(b *Binding) bool {
			doomed = append(doomed, b)
			return true
		})
	}
	return h
}
