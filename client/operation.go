package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"google.golang.org/grpc/codes"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// OperationState is the state of an operation.
type OperationState string

// The states.
const (
	OperationRunning   OperationState = "running"
	OperationDone      OperationState = "done"
	OperationFailed    OperationState = "failed"
	OperationCancelled OperationState = "cancelled"
)

// ofOperation is an answer with one operation.
type ofOperation struct {
	Operation Operation `api:"operation"`
}

// drain is a request; an empty node is the one that serves the call.
type drain struct {
	Node   string        `api:"node"`
	NoWait bool          `api:"no_wait"`
	Limit  time.Duration `api:"timeout_ms"`
}

// Drain moves all leadership off the node that serves the call, and waits until that is done. Use a
// client with only this address and FixedAddresses.
func (c *Client) Drain(ctx context.Context) error {
	_, err := ask[nothing](ctx, c, drain{}, admin, brokerv1.AdminClient.Drain)
	return err
}

// StartDrainRequest names a node.
type StartDrainRequest struct {
	Node  string
	Limit time.Duration // bounds the drain; 0: no bound
}

// StartDrain starts to move all leadership off a node. If a drain is running already, it returns
// that one.
func (c *Client) StartDrain(ctx context.Context, r StartDrainRequest) (Operation, error) {
	out, err := ask[ofOperation](ctx, c, drain{Node: r.Node, NoWait: true, Limit: r.Limit}, admin, brokerv1.AdminClient.Drain)
	return out.Operation, err
}

// UndrainRequest names a node; an empty one is the node that serves the call.
type UndrainRequest struct {
	Node string `api:"node"`
}

// Undrain lets a node that was drained take new work and lead again, without a restart. A drain that is
// going on there fails. It does nothing to a node that is not drained.
func (c *Client) Undrain(ctx context.Context, r UndrainRequest) error {
	_, err := ask[nothing](ctx, c, r, admin, brokerv1.AdminClient.Undrain)
	return err
}

// ListOperationsRequest selects operations.
type ListOperationsRequest struct {
	Running bool `api:"running"` // only running ones
}

// Operations lists the operations of all nodes, oldest first. The iterator ends with a
// *SilentNodesError if nodes did not answer.
func (c *Client) Operations(ctx context.Context, r ListOperationsRequest) iter.Seq2[Operation, error] {
	type answer struct {
		Operations []Operation `api:"operations"`
		Silent     []string    `api:"silent"`
	}
	return fromAll(func() ([]Operation, []string, error) {
		out, err := ask[answer](ctx, c, r, admin, brokerv1.AdminClient.ListOperations)
		return out.Operations, out.Silent, err
	})
}

// Operation returns an operation.
func (c *Client) Operation(ctx context.Context, id string) (Operation, error) {
	out, err := ask[ofOperation](ctx, c, ofID{id}, admin, brokerv1.AdminClient.GetOperation)
	return out.Operation, err
}

// CancelOperation cancels an operation and returns its state before. What it has changed stays.
func (c *Client) CancelOperation(ctx context.Context, id string) (Operation, error) {
	out, err := ask[ofOperation](ctx, c, ofID{id}, admin, brokerv1.AdminClient.CancelOperation)
	return out.Operation, err
}

// WatchOperation calls seen, unless nil, with the operation now and after each change, and returns
// it when it has ended. It continues on another node when the one that it uses is lost, until ctx
// ends; while the node that runs the operation is out of reach, it retries.
func (c *Client) WatchOperation(ctx context.Context, id string, seen func(Operation)) (Operation, error) {
	var last Operation
	for retry := (backoff{}); ; {
		err := c.try(ctx, func(ctx context.Context, n *node) error {
			stream, err := n.admin.WatchOperation(ctx, &brokerv1.WatchOperationRequest{Id: id})
			if err != nil {
				return err
			}
			return receive(stream, func(r *brokerv1.WatchOperationResponse) error {
				last, retry = owned[Operation](r.GetOperation()), backoff{}
				if seen != nil {
					seen(last)
				}
				return nil
			})
		})
		if err == nil && last.ID != "" {
			return last, nil
		}
		if err == nil {
			return last, fmt.Errorf("client: operation %s: the stream ended without an answer", id)
		}
		if err := c.again(ctx, &retry, err); err != nil {
			return last, err
		}
	}
}

// GrowQueues starts to make a node a member of queues, or plans it.
func (c *Client) GrowQueues(ctx context.Context, r GrowQueuesRequest) (StartedOperation, error) {
	return ask[StartedOperation](ctx, c, r, admin, brokerv1.AdminClient.GrowQueues)
}

// ShrinkNode starts to take a node out of queues, or plans it.
func (c *Client) ShrinkNode(ctx context.Context, r ShrinkNodeRequest) (StartedOperation, error) {
	return ask[StartedOperation](ctx, c, r, admin, brokerv1.AdminClient.ShrinkNode)
}

// Requests of a rebalance, and of its plan.
type (
	rebalance struct {
		Queues QueueFilter `api:"queues"`
	}
	planRebalance struct {
		Queues      QueueFilter `api:"queues"`
		LeadersOnly bool        `api:"leaders_only"`
	}
)

// RebalanceQueues starts to spread members and leaders of queues over the nodes, or plans it. Nodes
// before 0.9 know no plan and cannot move leaders alone: they start nothing, and the error has the
// class NotImplemented.
func (c *Client) RebalanceQueues(ctx context.Context, r RebalanceQueuesRequest) (out StartedOperation, err error) {
	switch { // calls of their own, because a node ignores fields that it does not know
	case r.DryRun:
		out, err = ask[StartedOperation](ctx, c, planRebalance{r.Queues, r.LeadersOnly}, admin, brokerv1.AdminClient.PlanRebalance)
	case r.LeadersOnly:
		out, err = ask[StartedOperation](ctx, c, rebalance{r.Queues}, admin, brokerv1.AdminClient.RebalanceLeaders)
	default:
		return ask[StartedOperation](ctx, c, rebalance{r.Queues}, admin, brokerv1.AdminClient.RebalanceQueues)
	}
	if e, ok := errors.AsType[*Error](err); ok && e.Code == codes.Unimplemented {
		err = &Error{
			Class: NotImplemented, Code: e.Code, Kind: "queues", Name: r.Queues.Pattern, VHost: r.Queues.VHost,
			Text: "the node runs a release before 0.9, which knows no plan of a rebalance and cannot move leaders alone: upgrade all nodes first",
		}
	}
	return out, err
}

// AddMember starts to make a node a member of a queue.
func (c *Client) AddMember(ctx context.Context, r AddMemberRequest) (StartedOperation, error) {
	return ask[StartedOperation](ctx, c, r, admin, brokerv1.AdminClient.AddMember)
}

// RemoveMember starts to take a node out of a queue, or plans it.
func (c *Client) RemoveMember(ctx context.Context, r RemoveMemberRequest) (StartedOperation, error) {
	return ask[StartedOperation](ctx, c, r, admin, brokerv1.AdminClient.RemoveMember)
}

// ReplaceMember starts to replace one member of a queue by another, or plans it.
func (c *Client) ReplaceMember(ctx context.Context, r ReplaceMemberRequest) (StartedOperation, error) {
	return ask[StartedOperation](ctx, c, r, admin, brokerv1.AdminClient.ReplaceMember)
}

// RemoveNode starts to remove a running node from the cluster for good, or plans it: the node
// drains, other nodes take its place in queues, then it is forgotten.
func (c *Client) RemoveNode(ctx context.Context, r RemoveNodeRequest) (StartedOperation, error) {
	return ask[StartedOperation](ctx, c, r, admin, brokerv1.AdminClient.RemoveNode)
}

// ReplaceNode starts to give up a node's stored data for good because its disk is lost, or only
// plans that. A node with an empty data directory then takes its place under the same id.
func (c *Client) ReplaceNode(ctx context.Context, r ReplaceNodeRequest) (StartedOperation, error) {
	return ask[StartedOperation](ctx, c, r, admin, brokerv1.AdminClient.ReplaceNode)
}

// ForgetNode starts to remove a node from the cluster for good, or plans it.
func (c *Client) ForgetNode(ctx context.Context, r ForgetNodeRequest) (StartedOperation, error) {
	return ask[StartedOperation](ctx, c, r, admin, brokerv1.AdminClient.ForgetNode)
}

// FinalizeVersionRequest asks to complete an upgrade.
type FinalizeVersionRequest struct {
	DryRun bool `api:"dry_run"` // only report what holds it back
}

// FinalizeVersion completes an upgrade, or plans it.
func (c *Client) FinalizeVersion(ctx context.Context, r FinalizeVersionRequest) (VersionFinalized, error) {
	return ask[VersionFinalized](ctx, c, r, admin, brokerv1.AdminClient.FinalizeVersion)
}
