package client

import (
	"context"
	"fmt"
	"time"

	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// Drain moves all leadership off the node that is asked, so use a client of that one
// address with FixedAddresses, and waits until it is over.
func (c *Client) Drain(ctx context.Context) error {
	_, err := do(ctx, c, &brokerv1.DrainRequest{}, drain)
	return err
}

// StartDrain begins to move all leadership off a node. limit bounds it; 0: it goes on
// until it is over. A drain that runs already is returned.
func (c *Client) StartDrain(ctx context.Context, node string, limit time.Duration) (*brokerv1.Operation, error) {
	out, err := do(ctx, c, &brokerv1.DrainRequest{Node: node, NoWait: true, TimeoutMs: limit.Milliseconds()}, drain)
	return out.GetOperation(), err
}

func drain(ctx context.Context, n *node, r *brokerv1.DrainRequest) (*brokerv1.DrainResponse, error) {
	return n.admin.Drain(ctx, r)
}

// Operations lists the long jobs of all nodes, oldest first, or only those that run. The
// answer names nodes that could not be asked.
func (c *Client) Operations(ctx context.Context, running bool) (*brokerv1.ListOperationsResponse, error) {
	r := &brokerv1.ListOperationsRequest{Running: running}
	return do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.ListOperationsRequest) (*brokerv1.ListOperationsResponse, error) {
		return n.admin.ListOperations(ctx, r)
	})
}

// Operation shows a long job.
func (c *Client) Operation(ctx context.Context, id string) (*brokerv1.Operation, error) {
	r := &brokerv1.GetOperationRequest{Id: id}
	out, err := do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.GetOperationRequest) (*brokerv1.GetOperationResponse, error) {
		return n.admin.GetOperation(ctx, r)
	})
	return out.GetOperation(), err
}

// CancelOperation asks a long job to end and returns it as it was. What it has changed
// stays.
func (c *Client) CancelOperation(ctx context.Context, id string) (*brokerv1.Operation, error) {
	r := &brokerv1.CancelOperationRequest{Id: id}
	out, err := do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.CancelOperationRequest) (*brokerv1.CancelOperationResponse, error) {
		return n.admin.CancelOperation(ctx, r)
	})
	return out.GetOperation(), err
}

// WatchOperation calls seen, unless it is nil, with a long job as it is, again after each change,
// and returns it when it has ended. It goes on over another node when the one that it asks is lost,
// until ctx ends; while the node that runs the job cannot be reached it tries again.
func (c *Client) WatchOperation(ctx context.Context, id string, seen func(*brokerv1.Operation)) (*brokerv1.Operation, error) {
	var last *brokerv1.Operation
	for retry := (backoff{}); ; {
		err := c.try(ctx, func(ctx context.Context, n *node) error {
			stream, err := n.admin.WatchOperation(ctx, &brokerv1.WatchOperationRequest{Id: id})
			if err != nil {
				return err
			}
			return receive(stream, func(r *brokerv1.WatchOperationResponse) error {
				last, retry = r.GetOperation(), backoff{}
				if seen != nil {
					seen(last)
				}
				return nil
			})
		})
		if err == nil && last != nil {
			return last, nil
		}
		if err == nil {
			return nil, fmt.Errorf("client: operation %s: the stream ended before it had said anything", id)
		}
		if err := c.again(ctx, &retry, err); err != nil {
			return last, err
		}
	}
}

// GrowQueues starts to make a node a member of queues, or plans it.
func (c *Client) GrowQueues(ctx context.Context, r *brokerv1.GrowQueuesRequest) (*brokerv1.StartOperationResponse, error) {
	return do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.GrowQueuesRequest) (*brokerv1.StartOperationResponse, error) {
		return n.admin.GrowQueues(ctx, r)
	})
}

// ShrinkNode starts to take a node out of queues, or plans it.
func (c *Client) ShrinkNode(ctx context.Context, r *brokerv1.ShrinkNodeRequest) (*brokerv1.StartOperationResponse, error) {
	return do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.ShrinkNodeRequest) (*brokerv1.StartOperationResponse, error) {
		return n.admin.ShrinkNode(ctx, r)
	})
}

// RebalanceQueues starts to spread members and leaders of queues over the nodes.
func (c *Client) RebalanceQueues(ctx context.Context, r *brokerv1.RebalanceQueuesRequest) (*brokerv1.StartOperationResponse, error) {
	return do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.RebalanceQueuesRequest) (*brokerv1.StartOperationResponse, error) {
		return n.admin.RebalanceQueues(ctx, r)
	})
}

// AddMember starts to make a node a member of a queue.
func (c *Client) AddMember(ctx context.Context, r *brokerv1.AddMemberRequest) (*brokerv1.StartOperationResponse, error) {
	return do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.AddMemberRequest) (*brokerv1.StartOperationResponse, error) {
		return n.admin.AddMember(ctx, r)
	})
}

// RemoveMember starts to take a node out of a queue, or plans it.
func (c *Client) RemoveMember(ctx context.Context, r *brokerv1.RemoveMemberRequest) (*brokerv1.StartOperationResponse, error) {
	return do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.RemoveMemberRequest) (*brokerv1.StartOperationResponse, error) {
		return n.admin.RemoveMember(ctx, r)
	})
}

// ReplaceMember starts to replace one member of a queue by another, or plans it.
func (c *Client) ReplaceMember(ctx context.Context, r *brokerv1.ReplaceMemberRequest) (*brokerv1.StartOperationResponse, error) {
	return do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.ReplaceMemberRequest) (*brokerv1.StartOperationResponse, error) {
		return n.admin.ReplaceMember(ctx, r)
	})
}

// FinalizeVersion ends an upgrade, or with dryRun tells what holds it back.
func (c *Client) FinalizeVersion(ctx context.Context, dryRun bool) (*brokerv1.FinalizeVersionResponse, error) {
	r := &brokerv1.FinalizeVersionRequest{DryRun: dryRun}
	return do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.FinalizeVersionRequest) (*brokerv1.FinalizeVersionResponse, error) {
		return n.admin.FinalizeVersion(ctx, r)
	})
}

// RemoveNode starts to take a node that runs out of the cluster for good, or plans it: it drains,
// other nodes take its place in queues, then it is forgotten.
func (c *Client) RemoveNode(ctx context.Context, r *brokerv1.RemoveNodeRequest) (*brokerv1.StartOperationResponse, error) {
	return do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.RemoveNodeRequest) (*brokerv1.StartOperationResponse, error) {
		return n.admin.RemoveNode(ctx, r)
	})
}

// ReplaceNode starts to give up for good what a node had stored, because its disk is lost, or plans
// it: one with an empty data directory takes its place under the same id.
func (c *Client) ReplaceNode(ctx context.Context, r *brokerv1.ReplaceNodeRequest) (*brokerv1.StartOperationResponse, error) {
	return do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.ReplaceNodeRequest) (*brokerv1.StartOperationResponse, error) {
		return n.admin.ReplaceNode(ctx, r)
	})
}

// ForgetNode starts to take a node out of the cluster for good, or plans it.
func (c *Client) ForgetNode(ctx context.Context, r *brokerv1.ForgetNodeRequest) (*brokerv1.StartOperationResponse, error) {
	return do(ctx, c, r, func(ctx context.Context, n *node, r *brokerv1.ForgetNodeRequest) (*brokerv1.StartOperationResponse, error) {
		return n.admin.ForgetNode(ctx, r)
	})
}
