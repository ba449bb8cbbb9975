package policy

import (
	"slices"
	"strings"

	"github.com/quorate/quorate/argument"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/internal/nearest"
	"github.com/quorate/quorate/message"
)

// MaxUnknown is how many unknown arguments of one table are reported.
const MaxUnknown = 16

// namespace is what names of arguments begin with that are not the users' own.
const namespace = "x-"

// Unknown is an argument without effect, although its name suggests that it has one (C-9).
type Unknown struct {
	Name    string
	Nearest string // the nearest known name; "": none
	Advice  string // a suggestion; "": none
}

// UnknownOfQueue returns the unknown arguments of a queue's declaration, at most MaxUnknown.
func UnknownOfQueue(args message.Table) []Unknown {
	return unknown(args, argument.Names(), func(name string) bool {
		_, former := argument.Former(name)
		return former || argument.Find(name) != nil
	})
}

// UnknownOfExchange is UnknownOfQueue for the declaration of an exchange.
func UnknownOfExchange(args message.Table) []Unknown {
	return unknown(args, catalog.ExchangeArguments(), nobody)
}

// UnknownOfConsumer is UnknownOfQueue for a consumer. Arguments that RabbitMQ has for consumers of
// streams and mirrored queues are known.
func UnknownOfConsumer(args message.Table) []Unknown {
	return unknown(args, []string{"x-priority", "x-consumer-timeout"}, func(name string) bool {
		return strings.HasPrefix(name, argument.Streams) || name == "x-cancel-on-ha-failover"
	})
}

// UnknownOfBinding is UnknownOfQueue for a binding of a headers exchange. If the binding compares
// headers whose names begin with x- (EX-9), no argument is unknown.
func UnknownOfBinding(args message.Table) []Unknown {
	if catalog.ComparesX(args) {
		return nil
	}
	out := unknown(args, []string{catalog.ArgMatch}, nobody)
	for i := range out {
		if out[i].Nearest == "" {
			out[i].Advice = catalog.ArgMatch + ` "all-with-x" or "any-with-x" compares headers whose names begin with x-`
		}
	}
	return out
}

func nobody(string) bool { return false }

// unknown finds the names that begin with x- and are neither known nor foreign.
func unknown(args message.Table, known []string, foreign func(string) bool) (out []Unknown) {
	for _, f := range args {
		switch {
		case !strings.HasPrefix(f.Name, namespace), slices.Contains(known, f.Name), foreign(f.Name):
			continue
		case len(out) == MaxUnknown:
			return out
		}
		u := Unknown{Name: f.Name}
		if len(f.Name) <= message.MaxNameBytes { // a longer one is no typing error, and costs time
			u.Nearest = nearest.Name(f.Name, known)
		}
		if u.Nearest != "" {
			u.Advice = "did you mean " + u.Nearest + "?"
		}
		out = append(out, u)
	}
	return out
}
