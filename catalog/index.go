package catalog

import "github.com/quorate/quorate/message"

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

// exchangeType is all that the catalog knows of a type: how it routes is its index.
type exchangeType struct {
	name ExchangeType
	// arguments are those that the type gives a meaning to, besides those of all types. A
	// redeclaration must have them the same: where messages go depends on them (EX-5).
	arguments []string
	// empty returns the index of an exchange without bindings, or says about e what is wrong with
	// the arguments of the declaration.
	empty func(e Error, args message.Table) (index, *Error)
}

// exchangeKinds is the table of the types that can be declared.
var exchangeKinds = [...]exchangeType{ //nolint:gochecknoglobals // a constant in all but name
	{name: ExchangeDirect, empty: plain(directIndex{})},
	{name: ExchangeFanout, empty: plain(fanoutIndex{})},
	{name: ExchangeTopic, empty: plain(topicIndex{})},
	{name: ExchangeHeaders, empty: plain(&headerIndex{})},
	{name: ExchangeModulusHash, empty: plain(modulusIndex{})},
	{name: ExchangeConsistentHash, empty: newHashRing, arguments: []string{argHashHeader, argHashProperty}},
	{name: ExchangeRandom, empty: plain(randomIndex{})},
	{name: ExchangeLocalRandom, empty: plain(localIndex{})},
}

// index is what an exchange makes of the bindings that have it as source, to find those that a
// message takes. It is never changed, so that views may share it: with and without return another.
// Equal sets of bindings route equally, in whatever order they came.
type index interface {
	// with adds a binding that checkBinding accepts and that is not there; ident is its identity,
	// to what it leads.
	with(b *Binding, ident string, to target) index
	// without takes a binding out that is there.
	without(b *Binding, ident string) index
	// checkBinding says about e why the type has no use for a binding; nil: it has.
	checkBinding(e Error, c *Bind) *Error
	// match adds the bindings that a message takes to the walk, by what the index knows them by. It
	// is on every publish, and allocates nothing in the ordinary case.
	match(p *Publication, w *walk)
	// knownBy returns what match names a binding by.
	knownBy(b *Binding) string
	// miss tells why a message does not take a binding, and how near it is: higher is nearer.
	// Whether it takes it is not decided here.
	miss(b *Binding, p *Publication) (why string, near int)
}

// plain is empty of a type without arguments.
func plain(x index) func(Error, message.Table) (index, *Error) {
	return func(Error, message.Table) (index, *Error) { return x, nil }
}

// typeNamed returns the row of a type, nil if there is none.
func typeNamed(name ExchangeType) *exchangeType {
	for i := range exchangeKinds {
		if t := &exchangeKinds[i]; t.name == name {
			return t
		}
	}
	return nil
}

// exchangeTypes are the types that can be declared.
func exchangeTypes() []ExchangeType {
	out := make([]ExchangeType, len(exchangeKinds))
	for i := range exchangeKinds {
		out[i] = exchangeKinds[i].name
	}
	return out
}

// byIdentity is of indexes that know bindings by their identity.
type byIdentity struct{}

func (byIdentity) knownBy(b *Binding) string { return b.identity() }

// takesAny is of indexes that have a use for every binding.
type takesAny struct{}

func (takesAny) checkBinding(Error, *Bind) *Error { return nil }
