// Package clients knows what the clients of one node have open: connections, with what limits
// count of them, consumers, what they publish to each exchange, and the node's figures as gateway. The use cases write it; the node's
// part of the cluster reads it, for operators and for other nodes.
package clients

// Registry is what the clients of one node have open. All methods may be called concurrently. Its parts
// know nothing of one another but that a consumer has a connection.
type Registry struct {
	Counters Counters
	Logins   Logins

	connections
	consumers
	quotaGates
	exchanges
}

// New returns a registry of a node without clients.
func New() *Registry {
	return &Registry{connections: newConnections(), consumers: newConsumers(), quotaGates: newQuotaGates()}
}
