package client

import "time"

// WatchEventsRequest selects events; an empty field selects all.
type WatchEventsRequest struct {
	VHost string `api:"vhost"`
	// Kinds such as queue_created, leader_changed or queue_full. The kind audit must be named to be
	// included, and needs the tag administrator (AU-3).
	Kinds []string `api:"kinds"`
	// Name of the queue, exchange, policy or binding, with *, ? and [a-z].
	Name string `api:"name"`
	// Cursor of an event: continue after it, on any node.
	Cursor string `api:"cursor"`
	// History begins with the events that the nodes still keep, if there is no cursor; otherwise the
	// stream begins with new events.
	History bool `api:"history"`
	// User of the audit records; "": any.
	User string `api:"user"`
	// Operation of audit records, such as user.put, with *, ? and [a-z].
	Operation string `api:"operation"`
}

// Event is something that happened.
type Event struct {
	// Kind such as queue_created, or audit; "missed" stands for events that the nodes did not keep.
	Kind string `api:"kind"`
	// At is the time of the event by the clock of the node.
	At time.Time `api:"at_ms"`
	// Node that reports the event; for changes of the catalog, the node that was asked.
	Node  string `api:"node"`
	VHost string `api:"vhost"`
	// Name of the queue, exchange, policy, vhost or binding.
	Name string `api:"name"`
	// Cause of the event, where there is one.
	Cause string `api:"cause"`
	// Detail such as the node that became leader or member.
	Detail string `api:"detail"`
	// Count is, for "missed", the maximum number of events; for consumer_timeout, the deliveries; for
	// messages_dropped, the messages.
	Count uint64 `api:"count"`
	// Audit has the further fields of an audit record.
	Audit *Audit `api:"audit"`
}

// Audit is an audit record: which user changed what, or was refused (AU-1). VHost and name of the
// object are those of the event, and so is the cause of a refusal; the event's count is how many
// similar records were left out before it.
type Audit struct {
	// User is empty where logins are off, and "node:ID" for what a node does by itself.
	User string `api:"user"`
	// Mechanism by which the user logged in: password, token, administrator-token or certificate.
	Mechanism string `api:"mechanism"`
	// Protocol is grpc, amqp, http or node.
	Protocol string `api:"protocol"`
	// Address of the client.
	Address string `api:"address"`
	// Client is the client's own name.
	Client string `api:"client"`
	// Operation such as queue.declare or user.put.
	Operation string `api:"operation"`
	// Object is the kind of object that changes, such as queue.
	Object string `api:"object"`
	// Outcome is done, refused, or unknown: it may have been done.
	Outcome string        `api:"outcome"`
	Changes []AuditChange `api:"changes"`
}

// AuditChange is a field before and after the change; empty: no value. Secrets appear only as
// changed.
type AuditChange struct {
	Field  string `api:"field"`
	Before string `api:"before"`
	After  string `api:"after"`
}

// TailAuditRequest selects records; an empty field selects all.
type TailAuditRequest struct {
	VHost string `api:"vhost"`
	User  string `api:"user"`
	// Operation such as user.put, with *, ? and [a-z].
	Operation string `api:"operation"`
	// Limit of the records; 0: 100.
	Limit uint32 `api:"limit"`
}

// AuditTail holds the newest records, oldest first, by the clocks of the nodes.
type AuditTail struct {
	Events []Event `api:"events"`
	// Cursor after these records, for WatchEvents.
	Cursor string `api:"cursor"`
	// Silent are the nodes that did not answer.
	Silent []string `api:"silent"`
	// Lost is how many records the answering nodes have had and dropped.
	Lost uint64 `api:"lost"`
}
