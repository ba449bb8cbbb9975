package client

import "time"

// WatchEventsRequest says what to tell; what is empty chooses all.
type WatchEventsRequest struct {
	VHost string `api:"vhost"`
	// Kinds such as queue_created, leader_changed or queue_full. The kind audit is told to those
	// alone who name it, and is for administrators (AU-3).
	Kinds []string `api:"kinds"`
	// Name of the queue, exchange, policy or binding, with *, ? and [a-z].
	Name string `api:"name"`
	// Cursor of an event: goes on behind it, on whatever node.
	Cursor string `api:"cursor"`
	// History begins with the events that the nodes still have, without a cursor; else the
	// stream begins with what happens from now on.
	History bool `api:"history"`
	// User who did what audit records tell; "" for all.
	User string `api:"user"`
	// Operation of audit records, such as user.put, with *, ? and [a-z].
	Operation string `api:"operation"`
}

// Event is something that happened.
type Event struct {
	// Kind is such as queue_created, or audit; "missed" stands for events that the nodes did not keep.
	Kind string `api:"kind"`
	// At is when, by the clock of the node.
	At time.Time `api:"at_ms"`
	// Node that tells; of changes of the catalog, the one that is asked.
	Node  string `api:"node"`
	VHost string `api:"vhost"`
	// Name of the queue, exchange, policy, vhost or binding.
	Name string `api:"name"`
	// Cause says why, where there is a reason.
	Cause string `api:"cause"`
	// Detail is such as the node that became leader or member.
	Detail string `api:"detail"`
	// Count is of "missed" how many events at most, of consumer_timeout the deliveries, of
	// messages_dropped the messages.
	Count uint64 `api:"count"`
	// Audit is what a record of the kind audit says besides.
	Audit *Audit `api:"audit"`
}

// Audit tells who changed what, or was refused it (AU-1). VHost and name of the object are the
// event's, and so is the cause of a refusal; its count is how many records like this one were left out
// before it.
type Audit struct {
	// User is empty where nobody has to log in, and "node:ID" of what a node does by itself.
	User string `api:"user"`
	// Mechanism by which the user logged in: password, token, administrator-token or certificate.
	Mechanism string `api:"mechanism"`
	// Protocol is grpc, amqp, http or node.
	Protocol string `api:"protocol"`
	// Address of the client.
	Address string `api:"address"`
	// Client is what the client calls itself.
	Client string `api:"client"`
	// Operation is such as queue.declare or user.put.
	Operation string `api:"operation"`
	// Object is the kind of what changes, such as queue.
	Object string `api:"object"`
	// Outcome is done, refused, or unknown: it may have been done.
	Outcome string        `api:"outcome"`
	Changes []AuditChange `api:"changes"`
}

// AuditChange is a field before and after; empty is none. Secrets are told as changed.
type AuditChange struct {
	Field  string `api:"field"`
	Before string `api:"before"`
	After  string `api:"after"`
}

// TailAuditRequest chooses records; what is empty chooses all.
type TailAuditRequest struct {
	VHost string `api:"vhost"`
	User  string `api:"user"`
	// Operation such as user.put, with *, ? and [a-z].
	Operation string `api:"operation"`
	// Limit of the records; 0: 100.
	Limit uint32 `api:"limit"`
}

// AuditTail holds the newest records, the oldest first, by the clocks of the nodes.
type AuditTail struct {
	Events []Event `api:"events"`
	// Cursor goes on behind them, in WatchEvents.
	Cursor string `api:"cursor"`
	// Silent are the nodes that did not answer.
	Silent []string `api:"silent"`
	// Lost is how many records the nodes that answered have had and do not keep any more.
	Lost uint64 `api:"lost"`
}
