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
