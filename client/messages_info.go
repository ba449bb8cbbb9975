package client

import "time"

// PeekRequest asks for a page of messages.
type PeekRequest struct {
	// VHost defaults to "/".
	VHost  string    `api:"vhost"`
	Queue  string    `api:"queue"`
	Part   QueuePart `api:"part"`
	Filter Filter    `api:"filter"`
	// Skip is how many messages to skip first, before the filter applies.
	Skip uint64 `api:"skip"`
	// FromNumber: only messages with this number or a higher one.
	FromNumber uint64 `api:"from_number"`
	// Limit: 0 is 10, at most 1000.
	Limit uint32 `api:"limit"`
	// WithBodies includes bodies, at most 4 MiB of them per page.
	WithBodies bool `api:"with_bodies"`
	// PageToken of the page before, with the same filter.
	PageToken string `api:"page_token"`
}

// PeekedState is the state of a message in its queue.
type PeekedState struct {
	// Number names the message in its queue; in the backlog, its place there.
	Number    uint64 `api:"number"`
	BodyBytes uint64 `api:"body_bytes"`
	// At is when it was enqueued; in the backlog, when it was discarded.
	At time.Time `api:"at_ms"`
	// Expires is when it expires; zero: never.
	Expires  time.Time `api:"expires_ms"`
	Priority uint32    `api:"priority"`
	// ConsumerNode is the node of the client that has an unsettled message.
	ConsumerNode string `api:"consumer_node"`
	// Reason of the discard, for dead letters in the backlog.
	Reason string `api:"reason"`
	// Destination of moved messages in the backlog.
	Destination string `api:"destination"`
	// Due is when a delayed message becomes ready.
	Due time.Time `api:"due_ms"`
}

// MessageJob describes an operation on selected messages.
type MessageJob struct {
	// VHost defaults to "/".
	VHost  string `api:"vhost"`
	Queue  string `api:"queue"`
	Filter Filter `api:"filter"`
	// Limit is the maximum number of messages; 0: all that are there when it begins.
	Limit uint64 `api:"limit"`
	// Rate is the maximum number of messages per second; 0: no limit.
	Rate uint32 `api:"rate"`
	// DryRun only counts the messages and returns some of them.
	DryRun bool `api:"dry_run"`
}

// MoveMessagesRequest selects messages and where they go: ToQueue, or through an exchange.
type MoveMessagesRequest struct {
	Job     MessageJob `api:"job"`
	ToQueue string     `api:"to_queue"`
	// ToExchange, unless nil, is the exchange to go through; "" is the default exchange.
	ToExchange *string `api:"to_exchange"`
	// RoutingKey for the exchange; nil: the message's own keys.
	RoutingKey *string `api:"routing_key"`
}

// RedriveMessagesRequest selects dead letters.
type RedriveMessagesRequest struct {
	Job MessageJob `api:"job"`
	// ToExchange sends them through the exchange that they came from, with their keys of that time,
	// instead of straight to the queue where they first died.
	ToExchange bool `api:"to_exchange"`
}

// ExplainRoutingRequest describes a message.
type ExplainRoutingRequest struct {
	// VHost defaults to "/".
	VHost    string `api:"vhost"`
	Exchange string `api:"exchange"`
	// RoutingKeys of the message: its own, then those of CC and BCC.
	RoutingKeys []string `api:"routing_keys"`
	Headers     Table    `api:"headers"`
}

// RoutingExplained is where the message would go.
type RoutingExplained struct {
	Queues []RoutedQueue `api:"queues"`
	// Steps are the exchanges on its way, in order.
	Steps []RoutingStep `api:"steps"`
}

// RoutedQueue is a queue that the message would reach.
type RoutedQueue struct {
	Name string `api:"name"`
	// Path are the bindings on the way there, the first one first.
	Path           []string        `api:"path"`
	Policy         string          `api:"policy"`
	OperatorPolicy string          `api:"operator_policy"`
	Settings       []SettingSource `api:"settings"`
}

// SettingSource is where a setting in force comes from.
type SettingSource struct {
	Argument string `api:"argument"`
	Value    string `api:"value"`
	// Source is argument, policy NAME or operator policy NAME.
	Source string `api:"source"`
}

// RoutingStep is an exchange on the way of a message.
type RoutingStep struct {
	Exchange string `api:"exchange"`
	Type     string `api:"type"`
	// Via is what led here; empty for the first.
	Via string `api:"via"`
	// Missing reports that the exchange does not exist.
	Missing bool `api:"missing"`
	// Taken are the bindings that match.
	Taken []string `api:"taken"`
	// Misses are bindings that do not match, the nearest first.
	Misses []RoutingMiss `api:"misses"`
	// MissesTotal counts all bindings that do not match.
	MissesTotal uint64 `api:"misses_total"`
}

// RoutingMiss is a binding that does not match.
type RoutingMiss struct {
	Binding string `api:"binding"`
	Why     string `api:"why"`
}

// ExplainDeadLetterRequest names a queue, and optionally a message in it.
type ExplainDeadLetterRequest struct {
	// VHost defaults to "/".
	VHost string `api:"vhost"`
	Queue string `api:"queue"`
	// Number of a message, as Peek returns it; 0: any message with the given routing keys.
	Number uint64 `api:"number"`
	// Part of the queue that has the message.
	Part QueuePart `api:"part"`
	// Reason for which it dies; empty: rejected. A message in the backlog has its own.
	Reason string `api:"reason"`
	// RoutingKeys of the message, if Number is 0; empty: the queue's name.
	RoutingKeys []string `api:"routing_keys"`
}

// DeadLetterExplained is where the dead letter would go.
type DeadLetterExplained struct {
	// Strategy in force: disabled, at-most-once or at-least-once.
	Strategy    string   `api:"strategy"`
	Exchange    string   `api:"exchange"`
	RoutingKeys []string `api:"routing_keys"`
	// Targets are the queues that it would reach.
	Targets []RoutedQueue `api:"targets"`
	// Cyclic are queues that it would be routed to and that are left out because of a cycle.
	Cyclic []string `api:"cyclic"`
	// Cause and Why are the reason why there is no target; Cause is "none" if there is a target.
	Cause string `api:"cause"`
	Why   string `api:"why"`
	// Settings of the queue about dead-lettering, and their sources.
	Settings []SettingSource `api:"settings"`
	Steps    []RoutingStep   `api:"steps"`
	// Warnings about settings, such as a strategy that does not take effect.
	Warnings []string `api:"warnings"`
}
