package serving

import (
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/catalog"
)

// LookUp returns a queue from a view, or an error that names what does not exist.
func LookUp(v *catalog.View, vhost, name string) (*catalog.QueueRecord, error) {
	if rec, ok := v.Queue(vhost, name); ok {
		return rec, nil
	}
	if _, ok := v.Exchange(vhost, ""); !ok { // every vhost has the default exchange
		return nil, &failure.Error{Class: failure.NotFound, VHost: vhost, Kind: "vhost", Name: vhost, Reason: "does not exist"}
	}
	return nil, NoQueue(vhost, name)
}

// NoQueue returns the error about a queue that does not exist.
func NoQueue(vhost, name string) *failure.Error {
	return &failure.Error{
		Class: failure.NotFound, VHost: vhost, Kind: "queue", Name: name,
		Reason: "does not exist; declare it first",
	}
}

// LookUpExchange returns an exchange; the error names the missing vhost or exchange.
func LookUpExchange(v *catalog.View, vhost, name string) (*catalog.Exchange, error) {
	x, ok := v.Exchange(vhost, name)
	if !ok {
		_, err := v.Route(vhost, name, &catalog.Publication{}, nil)
		return nil, failure.Translate(err, failure.Error{})
	}
	return x, nil
}

// PublishExchange returns an exchange that clients may publish to. It refuses one that is missing or
// internal.
func PublishExchange(v *catalog.View, vhost, name string) (*catalog.Exchange, error) {
	x, err := LookUpExchange(v, vhost, name)
	if err != nil {
		return nil, err
	}
	if x.Internal {
		return nil, InternalExchange(vhost, name)
	}
	return x, nil
}

// InternalExchange refuses to send a message to an internal exchange.
func InternalExchange(vhost, name string) error {
	return &failure.Error{
		Class: failure.AccessRefused, VHost: vhost, Kind: "exchange", Name: name, Problem: failure.ProblemInternalExchange,
		Reason: "is internal: only exchanges bound to it may publish to it",
	}
}
