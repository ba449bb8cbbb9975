package client

import "time"

// ConnectionInfo is a client's connection to a node.
type ConnectionInfo struct {
	// ID names it on all nodes: node/epoch/number.
	ID   string `api:"id"`
	Node string `api:"node"`
	// Name is both ends' addresses: client -> node.
	Name string `api:"name"`
	// Protocol is "AMQP 0-9-1" or "gRPC".
	Protocol string `api:"protocol"`
	TLS      bool   `api:"tls"`
	// User that logged in; over gRPC, where each call logs in, all that did, with commas.
	User string `api:"user"`
	// VHost that it was opened to; over gRPC all that calls have worked in, with commas.
	VHost string `api:"vhost"`
	// PeerAddress is the client's host and port.
	PeerAddress string `api:"peer_address"`
	// Channels that are open; over gRPC none.
	Channels uint32 `api:"channels"`
	// State is "running", "blocked" while its publishes are held back, or "closing" once its
	// client is told to go.
	State string `api:"state"`
	// ClientName is the ConnectionName that an AMQP client gave it; over gRPC the metadata
	// quorate-client-name of its first call.
	ClientName string `api:"client_name"`
	// Product of the client, with its version, if it tells; over gRPC its user agent.
	Product string `api:"product"`
	// ConnectedAt is by the clock of its node.
	ConnectedAt time.Time `api:"connected_at_ms"`
	// ReceivedBytes and SentBytes are the node's, those of TLS not counted.
	ReceivedBytes uint64 `api:"received_bytes"`
	SentBytes     uint64 `api:"sent_bytes"`
}

// ListConnectionsRequest chooses; what is empty chooses all.
type ListConnectionsRequest struct {
	VHost string `api:"vhost"`
	User  string `api:"user"`
}

// ConsumerInfo is a client's consumer of a queue.
type ConsumerInfo struct {
	VHost string `api:"vhost"`
	Queue string `api:"queue"`
	// Tag is the consumer's, unique to its connection's channel or its stream.
	Tag string `api:"tag"`
	// Node that the client is connected to.
	Node string `api:"node"`
	// Connection is the id of its connection, and ConnectionName the connection's name.
	Connection     string `api:"connection"`
	ConnectionName string `api:"connection_name"`
	User           string `api:"user"`
	// Prefetch is how many deliveries it may hold without a decision; 0: as many as may be.
	Prefetch  uint32 `api:"prefetch"`
	Priority  int32  `api:"priority"`
	AutoAck   bool   `api:"auto_ack"`
	Exclusive bool   `api:"exclusive"`
	// Activity is "active" or "waiting" where a queue has a single active consumer, else
	// "shared".
	Activity string `api:"activity"`
	// Unsettled is how many deliveries the client has been handed and not decided on.
	Unsettled uint64 `api:"unsettled"`
	// Buffered is how many deliveries wait at the node for the client to take them.
	Buffered uint64 `api:"buffered"`
	// ConsumingSince is by the clock of its node.
	ConsumingSince time.Time `api:"consuming_since_ms"`
}

// ListConsumersRequest chooses; what is empty chooses all. A queue is that of the vhost.
type ListConsumersRequest struct {
	VHost string `api:"vhost"`
	Queue string `api:"queue"`
}
