package catalog

import (
	"iter"

	"github.com/quorate/quorate/message"
)

// ExchangeType is how an exchange routes (EX-1).
type ExchangeType string

// The exchange types.
const (
	ExchangeDirect  ExchangeType = "direct"
	ExchangeFanout  ExchangeType = "fanout"
	ExchangeTopic   ExchangeType = "topic"
	ExchangeHeaders ExchangeType = "headers"
	// ExchangeModulusHash, ExchangeConsistentHash, ExchangeRandom and ExchangeLocalRandom
	// take one of their bindings (EX-14).
	ExchangeModulusHash    ExchangeType = "x-modulus-hash"
	ExchangeConsistentHash ExchangeType = "x-consistent-hash"
	ExchangeRandom         ExchangeType = "x-random"
	ExchangeLocalRandom    ExchangeType = "x-local-random"
)

// exchangeType is everything that the catalog knows of a type; its index does the routing.
type exchangeType struct {
	name   ExchangeType
	routes string // where a message goes, for people
	// topicKeys: topic permissions bound the keys (VH-8).
	topicKeys bool
	// byHeaders: the headers of a message and the arguments of a binding decide.
	byHeaders bool
	// arguments are those that have a meaning for this type in particular. A redeclaration must repeat
	// them, because routing depends on them (EX-5).
	arguments []string
	// empty returns the index of an exchange without bindings, or e completed with what is wrong with
	// the declaration's arguments.
	empty func(e Error, args message.Table) (index, *Error)
}

// exchangeKinds is the table of the types that can be declared.
var exchangeKinds = [...]exchangeType{ //nolint:gochecknoglobals // a constant in all but name
	{name: ExchangeDirect, empty: plain(directIndex{}), routes: "to the bindings with the message's key"},
	{name: ExchangeFanout, empty: plain(fanoutIndex{}), routes: "to all bindings"},
	{name: ExchangeTopic, empty: plain(topicIndex{}), topicKeys: true, routes: "to the bindings whose pattern matches the key"},
	{name: ExchangeHeaders, empty: plain(&headerIndex{}), byHeaders: true, routes: "to the bindings whose arguments match the headers"},
	{name: ExchangeModulusHash, empty: plain(modulusIndex{}), routes: "to one binding, chosen by a hash of the key"},
	{
		name: ExchangeConsistentHash, empty: newHashRing, arguments: []string{argHashHeader, argHashProperty},
		routes: "to one binding, chosen by a hash and the bindings' weights",
	},
	{name: ExchangeRandom, empty: plain(randomIndex{}), routes: "to one binding at random"},
	{
		name: ExchangeLocalRandom, empty: plain(localIndex{}),
		routes: "to one binding at random, of a queue whose leader is on the publisher's node",
	},
}

// index organises the bindings with an exchange as source, to find those that match a message. It
// never changes, so that views can share it: with and without return another index. Equal sets of
// bindings route equally, whatever their order of arrival.
type index interface {
	// with adds a binding that checkBinding accepts and that is not in the index. ident is its
	// identity, to its destination.
	with(b *Binding, ident string, to target) index
	// without removes a binding that is in the index.
	without(b *Binding, ident string) index
	// checkBinding returns e completed with why the type cannot use a binding; nil: it can.
	checkBinding(e Error, c *Bind) *Error
	// match adds the matching bindings to the walk, under the names of knownBy. It runs on every
	// publish, and normally allocates nothing.
	match(p *Publication, w *walk)
	// knownBy returns the name under which match adds a binding.
	knownBy(b *Binding) string
	// miss explains why a message does not match a binding, and returns how near it is: higher is
	// nearer. It does not decide whether it matches.
	miss(b *Binding, p *Publication) (why string, near int)
}

// plain is the empty function of types without arguments.
func plain(x index) func(Error, message.Table) (index, *Error) {
	return func(Error, message.Table) (index, *Error) { return x, nil }
}

// typeNamed returns the row of a type, or nil.
func typeNamed(name ExchangeType) *exchangeType {
	for i := range exchangeKinds {
		if t := &exchangeKinds[i]; t.name == name {
			return t
		}
	}
	return nil
}

// ExchangeTypes iterates over the types that can be declared, each with where it routes a message, for people.
func ExchangeTypes() iter.Seq2[ExchangeType, string] {
	return func(yield func(ExchangeType, string) bool) {
		for i := range exchangeKinds {
			if !yield(exchangeKinds[i].name, exchangeKinds[i].routes) {
				return
			}
		}
	}
}

// exchangeTypes are the types that can be declared.
func exchangeTypes() []ExchangeType {
	out := make([]ExchangeType, len(exchangeKinds))
	for i := range exchangeKinds {
		out[i] = exchangeKinds[i].name
	}
	return out
}

// byIdentity is for indexes that name bindings by their identity.
type byIdentity struct{}

func (byIdentity) knownBy(b *Binding) string { return b.identity() }

// takesAny is for indexes that can use every binding.
type takesAny struct{}

func (takesAny) checkBinding(Error, *Bind) *Error { return nil }
