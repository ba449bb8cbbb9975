package client

import "time"

// Operation is a long-running job. It ends with the process of its node.
type Operation struct {
	// ID is NODE.EPOCH.NUMBER and never used again.
	ID string `api:"id"`
	// Kind is such as "drain" or "grow-queues".
	Kind string `api:"kind"`
	// Target is the subject of the operation, in words.
	Target string `api:"target"`
	// Node that runs it.
	Node  string         `api:"node"`
	State OperationState `api:"state"`
	// Phase is the current phase; Done, Total, Rate and ETA apply to it.
	Phase string `api:"phase"`
	Done  int64  `api:"done"`
	// Total is 0 while it is unknown.
	Total int64 `api:"total"`
	// Unit of Done and Total, such as "queues".
	Unit string `api:"unit"`
	// Rate is in units per second; 0 while it is unknown.
	Rate float64 `api:"rate"`
	// ETA is the time left in the phase at that rate; 0 while it is unknown.
	ETA time.Duration `api:"eta_ms"`
	// Started and Updated are times of the clock of the node that runs it.
	Started time.Time `api:"started_ms"`
	Updated time.Time `api:"updated_ms"`
	// Detail is what the operation waits for or works on.
	Detail string `api:"detail"`
	// Error is why it failed.
	Error string `api:"error"`
}

// StartedOperation is the operation that was started or, with DryRun, the plan.
type StartedOperation struct {
	// Operation is nil with DryRun.
	Operation *Operation `api:"operation"`
	// Plan has, with DryRun, a line for each change; at most 1000.
	Plan []string `api:"plan"`
	// PlanTotal is the number of changes, including those without a line.
	PlanTotal uint64 `api:"plan_total"`
}

// QueueFilter selects queues; the empty one selects all.
type QueueFilter struct {
	// VHost: all if empty.
	VHost string `api:"vhost"`
	// Pattern of names with *, ? and [a-z]; all if empty.
	Pattern string `api:"pattern"`
}

// GrowQueuesRequest names the node and the queues.
type GrowQueuesRequest struct {
	Node   string      `api:"node"`
	Queues QueueFilter `api:"queues"`
	// EvenOnly leaves out queues with an odd number of members.
	EvenOnly bool `api:"even_only"`
	// DryRun reports what would be done and changes nothing.
	DryRun bool `api:"dry_run"`
}

// ShrinkNodeRequest names the node and the queues.
type ShrinkNodeRequest struct {
	Node   string      `api:"node"`
	Queues QueueFilter `api:"queues"`
	// KeepSize lets another node take its place in each queue, if there is one.
	KeepSize bool `api:"keep_size"`
	// DryRun reports what would be done and changes nothing.
	DryRun bool `api:"dry_run"`
	// Exclude are nodes that must not take its place, such as those to be removed next.
	Exclude []string `api:"exclude"`
}

// RebalanceQueuesRequest names the queues.
type RebalanceQueuesRequest struct {
	Queues QueueFilter
	// DryRun reports what would be done and changes nothing.
	DryRun bool
	// LeadersOnly moves leaders and leaves members where they are.
	LeadersOnly bool
}

// AddMemberRequest names the queue and the node.
type AddMemberRequest struct {
	// VHost defaults to "/".
	VHost string `api:"vhost"`
	Queue string `api:"queue"`
	Node  string `api:"node"`
}

// RemoveMemberRequest names the queue and the node.
type RemoveMemberRequest struct {
	// VHost defaults to "/".
	VHost string `api:"vhost"`
	Queue string `api:"queue"`
	Node  string `api:"node"`
	// DryRun reports what would be done and changes nothing.
	DryRun bool `api:"dry_run"`
}

// ReplaceMemberRequest names the queue and the nodes. With from equal to to the member is
// rebuilt from the others.
type ReplaceMemberRequest struct {
	// VHost defaults to "/".
	VHost string `api:"vhost"`
	Queue string `api:"queue"`
	From  string `api:"from"`
	To    string `api:"to"`
	// DryRun reports what would be done and changes nothing.
	DryRun bool `api:"dry_run"`
}

// RemoveNodeRequest names the node.
type RemoveNodeRequest struct {
	Node string `api:"node"`
	// Exclude are nodes that must not take its place, such as those to be removed next.
	Exclude []string `api:"exclude"`
	// DryRun reports what would be done and changes nothing.
	DryRun bool `api:"dry_run"`
}

// ReplaceNodeRequest names the node.
type ReplaceNodeRequest struct {
	Node string `api:"node"`
	// AcceptLoss lets queues be deleted whose only member is on the node.
	AcceptLoss bool `api:"accept_loss"`
	// DryRun reports what would be done and changes nothing.
	DryRun bool `api:"dry_run"`
}

// ForgetNodeRequest names the node.
type ForgetNodeRequest struct {
	Node string `api:"node"`
	// Replace lets other nodes take its place in queues first; without it the node must be a
	// member of none.
	Replace bool `api:"replace"`
	// DryRun reports what would be done and changes nothing.
	DryRun bool `api:"dry_run"`
}

// TransferLeadershipRequest names the queue and the node.
type TransferLeadershipRequest struct {
	// VHost defaults to "/".
	VHost string `api:"vhost"`
	Queue string `api:"queue"`
	// Node that should lead; empty lets the leader choose.
	Node string `api:"node"`
}
