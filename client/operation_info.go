package client

import "time"

// Operation is a long job. It ends with the process of its node.
type Operation struct {
	// ID is NODE.EPOCH.NUMBER and never used again.
	ID string `api:"id"`
	// Kind is such as "drain" or "grow-queues".
	Kind string `api:"kind"`
	// Target is what the operation is about, in words.
	Target string `api:"target"`
	// Node that runs it.
	Node  string         `api:"node"`
	State OperationState `api:"state"`
	// Phase is what goes on now; Done, Total, Rate and ETA are of the phase.
	Phase string `api:"phase"`
	Done  int64  `api:"done"`
	// Total is 0 while it is not known.
	Total int64 `api:"total"`
	// Unit of done and total, such as "queues".
	Unit string `api:"unit"`
	// Rate is in units per second; 0 while it is not known.
	Rate float64 `api:"rate"`
	// ETA is the rest of the phase at that rate; 0 while it is not known.
	ETA time.Duration `api:"eta_ms"`
	// Started and Updated are by the clock of the node that runs it.
	Started time.Time `api:"started_ms"`
	Updated time.Time `api:"updated_ms"`
	// Detail names what the operation waits for or works on.
	Detail string `api:"detail"`
	// Error tells why it failed.
	Error string `api:"error"`
}

// StartedOperation holds what was started, or with DryRun what would be done.
type StartedOperation struct {
	// Operation is nil with DryRun.
	Operation *Operation `api:"operation"`
	// Plan has a line for each change, with DryRun; at most 1000.
	Plan []string `api:"plan"`
	// PlanTotal is the number of changes, those without a line included.
	PlanTotal uint64 `api:"plan_total"`
}

// QueueFilter chooses queues; the empty one chooses all.
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
	// DryRun tells what would be done and does nothing.
	DryRun bool `api:"dry_run"`
}

// ShrinkNodeRequest names the node and the queues.
type ShrinkNodeRequest struct {
	Node   string      `api:"node"`
	Queues QueueFilter `api:"queues"`
	// KeepSize lets another node take its place in each queue, if there is one.
	KeepSize bool `api:"keep_size"`
	// DryRun tells what would be done and does nothing.
	DryRun bool `api:"dry_run"`
	// Exclude are nodes that do not take its place, such as those that go next.
	Exclude []string `api:"exclude"`
}

// RebalanceQueuesRequest names the queues.
type RebalanceQueuesRequest struct {
	Queues QueueFilter `api:"queues"`
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
	// DryRun tells what would be done and does nothing.
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
	// DryRun tells what would be done and does nothing.
	DryRun bool `api:"dry_run"`
}

// RemoveNodeRequest names the node.
type RemoveNodeRequest struct {
	Node string `api:"node"`
	// Exclude are nodes that do not take its place, such as those that go next.
	Exclude []string `api:"exclude"`
	// DryRun tells what would be done and does nothing.
	DryRun bool `api:"dry_run"`
}

// ReplaceNodeRequest names the node.
type ReplaceNodeRequest struct {
	Node string `api:"node"`
	// AcceptLoss lets queues be deleted whose only member is on the node.
	AcceptLoss bool `api:"accept_loss"`
	// DryRun tells what would be done and does nothing.
	DryRun bool `api:"dry_run"`
}

// ForgetNodeRequest names the node.
type ForgetNodeRequest struct {
	Node string `api:"node"`
	// Replace lets other nodes take its place in queues first; without it the node must be a
	// member of none.
	Replace bool `api:"replace"`
	// DryRun tells what would be done and does nothing.
	DryRun bool `api:"dry_run"`
}

// TransferLeadershipRequest names the queue and the node.
type TransferLeadershipRequest struct {
	// VHost defaults to "/".
	VHost string `api:"vhost"`
	Queue string `api:"queue"`
	// Node that shall lead; empty lets the leader choose.
	Node string `api:"node"`
}
