package client

import "time"

// ConnectionInfo is a client's connection to a node.
type ConnectionInfo struct {
	// ID names it on all nodes: node/epoch/number.
	ID   string `api:"id"`
	Node string `api:"node"`
	// Name has the addresses of both ends: client -> node.
	Name string `api:"name"`
	// Protocol is "AMQP 0-9-1" or "gRPC".
	Protocol string `api:"protocol"`
	TLS      bool   `api:"tls"`
	// User that logged in; over gRPC, where each call logs in, all users so far, separated by commas.
	User string `api:"user"`
	// VHost of the connection; over gRPC all vhosts of calls so far, separated by commas.
	VHost string `api:"vhost"`
	// PeerAddress is the client's host and port.
	PeerAddress string `api:"peer_address"`
	// Channels that are open; over gRPC none.
	Channels uint32 `api:"channels"`
	// State is "running", "blocked" while its publishes are held back, or "closing" once it is being
	// closed.
	State string `api:"state"`
	// ClientName is the connection name that an AMQP client gave; over gRPC the metadata
	// quorate-client-name of its first call.
	ClientName string `api:"client_name"`
	// Product and version of the client, if it reports them; over gRPC its user agent.
	Product string `api:"product"`
	// ConnectedAt is a time of its node's clock.
	ConnectedAt time.Time `api:"connected_at_ms"`
	// ReceivedBytes and SentBytes are counted by the node, without TLS overhead.
	ReceivedBytes uint64 `api:"received_bytes"`
	SentBytes     uint64 `api:"sent_bytes"`
}

// ListConnectionsRequest selects connections; an empty field selects all.
type ListConnectionsRequest struct {
	VHost string `api:"vhost"`
	User  string `api:"user"`
}

// ConsumerInfo is a client's consumer of a queue.
type ConsumerInfo struct {
	VHost string `api:"vhost"`
	Queue string `api:"queue"`
	// Tag is unique within the connection's channel, or its stream.
	Tag string `api:"tag"`
	// Node that the client is connected to.
	Node string `api:"node"`
	// Connection is the id of its connection, and ConnectionName the connection's name.
	Connection     string `api:"connection"`
	ConnectionName string `api:"connection_name"`
	User           string `api:"user"`
	// Prefetch is the maximum number of unsettled deliveries; 0: the broker's limit.
	Prefetch  uint32 `api:"prefetch"`
	Priority  int32  `api:"priority"`
	AutoAck   bool   `api:"auto_ack"`
	Exclusive bool   `api:"exclusive"`
	// Activity is "active" or "waiting" where a queue has a single active consumer, else
	// "shared".
	Activity string `api:"activity"`
	// Unsettled is the number of deliveries that the client has received and not settled.
	Unsettled uint64 `api:"unsettled"`
	// Buffered is the number of deliveries that wait at the node for the client to read them.
	Buffered uint64 `api:"buffered"`
	// ConsumingSince is a time of its node's clock.
	ConsumingSince time.Time `api:"consuming_since_ms"`
}

// ListConsumersRequest selects consumers; an empty field selects all. Queue is a queue of VHost.
type ListConsumersRequest struct {
	VHost string `api:"vhost"`
	Queue string `api:"queue"`
}
