package rest

import "time"

// Facts are what the process of a node knows about itself beside its broker. A function that is nil
// knows nothing.
type Facts struct {
	// Listeners returns the open listeners for clients.
	Listeners func() []Listener
	// Certificates returns when the certificates end that the node shows, by the kind of listener;
	// none without TLS.
	Certificates func() map[string]time.Time
	// Settings returns the settings in force by their names, without secrets.
	Settings func() map[string]any
	// Expected returns with how many nodes the cluster was to be founded.
	Expected func() int
	// Connections returns how many clients are connected to the node, and its limit.
	Connections func() (open, most int)
}

// Listener is an open port of a node.
type Listener struct {
	Protocol string // amqp, grpc or http; with TLS, "/ssl" follows
	Address  string // host that it listens on; "": all addresses of the machine
	Port     uint16
}
