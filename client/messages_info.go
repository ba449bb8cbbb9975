package client

import "time"

// PeekRequest asks for a page of messages.
type PeekRequest struct {
	// VHost defaults to "/".
	VHost  string    `api:"vhost"`
	Queue  string    `api:"queue"`
	Part   QueuePart `api:"part"`
	Filter Filter    `api:"filter"`
	// Skip is how many messages are left out first, before the filter.
	Skip uint64 `api:"skip"`
	// FromNumber: only messages with this number or a higher one.
	FromNumber uint64 `api:"from_number"`
	// Limit: 0 is 10, at most 1000.
	Limit uint32 `api:"limit"`
	// WithBodies shows bodies too, at most 4 MiB of them in a page.
	WithBodies bool `api:"with_bodies"`
	// PageToken of the page before, asked for with the same filter.
	PageToken string `api:"page_token"`
}

// PeekedState is a message as it stands in its queue.
type PeekedState struct {
	// Number names the message in its queue, of the backlog its place there.
	Number    uint64 `api:"number"`
	BodyBytes uint64 `api:"body_bytes"`
	// At is when it was enqueued, of the backlog when it was discarded.
	At time.Time `api:"at_ms"`
	// Expires is when it will expire; zero: never.
	Expires  time.Time `api:"expires_ms"`
	Priority uint32    `api:"priority"`
	// ConsumerNode is the node of the client that has it, of unsettled ones.
	ConsumerNode string `api:"consumer_node"`
	// Reason of the discard, of dead letters in the backlog.
	Reason string `api:"reason"`
	// Destination of moved messages in the backlog.
	Destination string `api:"destination"`
	// Due is when it will be ready, of delayed ones.
	Due time.Time `api:"due_ms"`
}

// MessageJob bounds an operation on chosen messages.
type MessageJob struct {
	// VHost defaults to "/".
	VHost  string `api:"vhost"`
	Queue  string `api:"queue"`
	Filter Filter `api:"filter"`
	// Limit is how many messages it takes at most; 0: all that are there when it begins.
	Limit uint64 `api:"limit"`
	// Rate is how many messages it takes in a second at most; 0: as many as it can.
	Rate uint32 `api:"rate"`
	// DryRun only counts them and shows some.
	DryRun bool `api:"dry_run"`
}

// MoveMessagesRequest chooses messages and where they go: ToQueue, or through exchange.
type MoveMessagesRequest struct {
	Job     MessageJob `api:"job"`
	ToQueue string     `api:"to_queue"`
	// ToExchange, if it is not nil: the exchange to go through; "" is the default exchange.
	ToExchange *string `api:"to_exchange"`
	// RoutingKey to go through the exchange with; nil: the message's own keys.
	RoutingKey *string `api:"routing_key"`
}

// RedriveMessagesRequest chooses dead letters.
type RedriveMessagesRequest struct {
	Job MessageJob `api:"job"`
	// ToExchange sends them through the exchange that they came from, with their keys of
	// then, instead of straight to the queue that they died in first.
	ToExchange bool `api:"to_exchange"`
}

// ExplainRoutingRequest describes a message.
type ExplainRoutingRequest struct {
	// VHost defaults to "/".
	VHost    string `api:"vhost"`
	Exchange string `api:"exchange"`
	// RoutingKeys: the message's own, then those of CC and BCC.
	RoutingKeys []string `api:"routing_keys"`
	Headers     Table    `api:"headers"`
}

// RoutingExplained tells where the message would go.
type RoutingExplained struct {
	Queues []RoutedQueue `api:"queues"`
	// Steps are the exchanges that it would come by, in order.
	Steps []RoutingStep `api:"steps"`
}

// RoutedQueue is a queue that a message would go to.
type RoutedQueue struct {
	Name string `api:"name"`
	// Path are the bindings by which it gets there, the first one first.
	Path           []string        `api:"path"`
	Policy         string          `api:"policy"`
	OperatorPolicy string          `api:"operator_policy"`
	Settings       []SettingSource `api:"settings"`
}

// SettingSource tells where a setting in force comes from.
type SettingSource struct {
	Argument string `api:"argument"`
	Value    string `api:"value"`
	// Source is argument, policy NAME or operator policy NAME.
	Source string `api:"source"`
}

// RoutingStep is an exchange that a message comes by.
type RoutingStep struct {
	Exchange string `api:"exchange"`
	Type     string `api:"type"`
	// Via says what led here; empty for the first.
	Via string `api:"via"`
	// Missing: there is no such exchange.
	Missing bool `api:"missing"`
	// Taken are the bindings that match.
	Taken []string `api:"taken"`
	// Misses are bindings that do not, the nearest first.
	Misses []RoutingMiss `api:"misses"`
	// MissesTotal counts all that do not.
	MissesTotal uint64 `api:"misses_total"`
}

// RoutingMiss is a binding that does not match.
type RoutingMiss struct {
	Binding string `api:"binding"`
	Why     string `api:"why"`
}

// ExplainDeadLetterRequest names a queue, and perhaps a message in it.
type ExplainDeadLetterRequest struct {
	// VHost defaults to "/".
	VHost string `api:"vhost"`
	Queue string `api:"queue"`
	// Number of a message, as Peek shows it; 0: any message with the routing keys given.
	Number uint64 `api:"number"`
	// Part where the message is.
	Part QueuePart `api:"part"`
	// Reason for which it dies: rejected unless set. A message of the backlog has its own.
	Reason string `api:"reason"`
	// RoutingKeys of the message, without number; empty: the queue's name.
	RoutingKeys []string `api:"routing_keys"`
}

// DeadLetterExplained tells where the dead letter would go.
type DeadLetterExplained struct {
	// Strategy in force: disabled, at-most-once or at-least-once.
	Strategy    string   `api:"strategy"`
	Exchange    string   `api:"exchange"`
	RoutingKeys []string `api:"routing_keys"`
	// Targets are queues that it would go to.
	Targets []RoutedQueue `api:"targets"`
	// Cyclic are queues that are routed to and left out, as it would go round for ever.
	Cyclic []string `api:"cyclic"`
	// Cause and why there is no target; cause is none if there is one.
	Cause string `api:"cause"`
	Why   string `api:"why"`
	// Settings of the queue about dead-lettering, and where they come from.
	Settings []SettingSource `api:"settings"`
	Steps    []RoutingStep   `api:"steps"`
	// Warnings about settings, such as a strategy that does not take effect.
	Warnings []string `api:"warnings"`
}
