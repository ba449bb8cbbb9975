package operators

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/id"
)

// Operation is a long job: what it does, its progress, and how it ended.
type Operation = operation.Operation

// The states of an operation.
const (
	OperationRunning   = operation.Running
	OperationDone      = operation.Done
	OperationFailed    = operation.Failed
	OperationCancelled = operation.Cancelled
)

// Operations returns the operations of all nodes, oldest first, and the nodes that did not answer.
// With running it returns only operations that still run.
func (o *Operators) Operations(ctx context.Context, running bool) (all []Operation, silent []string, err error) {
	c := o.cluster
	found, nodes, err := c.Jobs().All(ctx)
	if err != nil {
		return nil, nil, failure.Translate(err, failure.Error{Kind: "operation"})
	}
	for i := range found {
		if !running || found[i].State == OperationRunning {
			all = append(all, found[i])
		}
	}
	return all, id.Names(nodes), ctx.Err()
}

// QueueTarget is the target of operations about a queue. More about it, such as a node, may follow behind a comma.
func QueueTarget(vhost, queue string) string {
	return fmt.Sprintf("queue %q in vhost %q", queue, vhost)
}

// OperationsOfQueue is Operations for those that are about one queue alone, running or not.
func (o *Operators) OperationsOfQueue(ctx context.Context, vhost, queue string) (all []Operation, silent []string, err error) {
	all, silent, err = o.Operations(ctx, false)
	target := QueueTarget(vhost, queue)
	return slices.DeleteFunc(all, func(x Operation) bool {
		return x.Target != target && !strings.HasPrefix(x.Target, target+", ")
	}), silent, err
}

// AwaitOperation returns an operation as soon as its version is above after. With 0 it returns at
// once.
func (o *Operators) AwaitOperation(ctx context.Context, text string, after uint64) (Operation, error) {
	c, x, err := o.operationID(text)
	if err != nil {
		return Operation{}, err
	}
	op, err := c.Jobs().Await(ctx, x, after)
	return op, failure.Translate(err, failure.Error{Kind: "operation", Name: text})
}

// CancelOperation asks an operation to end, and returns the operation as it was. What it has
// changed stays changed.
func (o *Operators) CancelOperation(ctx context.Context, text string) (Operation, error) {
	c, x, err := o.operationID(text)
	if err != nil {
		return Operation{}, err
	}
	op, err := c.Jobs().Cancel(ctx, x)
	if err == nil {
		audit.NotesOf(ctx).Note(audit.Change{Field: "state", Before: string(op.State), After: string(OperationCancelled)})
	}
	return op, failure.Translate(err, failure.Error{Kind: "operation", Name: text})
}

// operationID parses an id. The node in the id need not exist.
func (o *Operators) operationID(text string) (*cluster.Cluster, operation.ID, error) {
	c := o.cluster
	x, err := operation.ParseID(text)
	if err != nil {
		return nil, x, &failure.Error{Class: failure.PreconditionFailed, Kind: "operation", Arg: "id", Value: text, Reason: "want NODE.EPOCH.NUMBER, as the list of operations shows it"}
	}
	return c, x, nil
}

// drainMargin is the part of the caller's time that Drain leaves for its answer to reach the
// caller.
const drainMargin = 250 * time.Millisecond

// StartDrain makes a node move all leadership to other nodes and accept no new work until Undrain or its
// restart; "" stands for this node. limit is how long it may move leadership; 0: as long as it
// takes.
func (o *Operators) StartDrain(ctx context.Context, node string, limit time.Duration) (Operation, error) {
	c := o.cluster
	if node != "" {
		if err := o.checkNode(c, node); err != nil {
			return Operation{}, err
		}
	}
	op, err := c.Unloader().StartDrain(ctx, id.NodeID(node), limit)
	if err == nil {
		noteStarted(ctx, &op)
	}
	return op, failure.Translate(err, failure.Error{Kind: "node", Name: node})
}

// Drain is StartDrain, but waits until the drain has ended, at most until ctx ends. The error names
// what could not be moved.
func (o *Operators) Drain(ctx context.Context, node string) (Operation, error) {
	limit := time.Duration(0)
	if end, bounded := ctx.Deadline(); bounded {
		limit = max(time.Until(end)-drainMargin, time.Millisecond)
	}
	op, err := o.StartDrain(ctx, node, limit)
	for err == nil && op.State == OperationRunning {
		op, err = o.AwaitOperation(ctx, op.ID.String(), op.Version)
	}
	if err == nil && op.State != OperationDone {
		err = &failure.Error{Class: failure.PreconditionFailed, State: true, Kind: "node", Name: node, Reason: op.Error}
	}
	return op, err
}

// Undrain lets a node that was drained take new work and lead again, without a restart; "" stands for this
// node. A drain that is going on fails.
func (o *Operators) Undrain(ctx context.Context, node string) error {
	c := o.cluster
	if node != "" {
		if err := o.checkNode(c, node); err != nil {
			return err
		}
	}
	err := c.Unloader().Undrain(ctx, id.NodeID(node))
	if err == nil {
		audit.NotesOf(ctx).Note(audit.Change{Field: "draining", After: "false"})
	}
	return failure.Translate(err, failure.Error{Kind: "node", Name: node})
}

// checkNode refuses a node that the catalog does not know.
func (o *Operators) checkNode(c *cluster.Cluster, node string) error {
	if _, known := c.View().Node(id.NodeID(node)); known {
		return nil
	}
	return &failure.Error{Class: failure.NotFound, Kind: "node", Name: node, Reason: fmt.Sprintf("node %q is not in the cluster; see the list of nodes", node)}
}

// Start runs a job as an operation of this node.
func (o *Operators) Start(ctx context.Context, kind operation.Kind, target string, job operation.Job) (Operation, error) {
	op, err := o.cluster.Jobs().Start(kind, target, func(ctx context.Context, report func(operation.Progress)) error {
		err := job(ctx, report)
		if errors.Is(err, context.Canceled) && ctx.Err() != nil {
			return context.Cause(ctx) // the reason for which the operation ended
		}
		return err
	})
	if err == nil {
		noteStarted(ctx, &op)
	}
	return op, failure.Translate(err, failure.Error{Kind: "operation"})
}

// noteStarted notes the start of an operation for the audit.
func noteStarted(ctx context.Context, op *Operation) {
	audit.NotesOf(ctx).Note(audit.Change{Field: "operation", After: op.ID.String()}, audit.Change{Field: "target", After: op.Target})
}
