package grpcapi

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/broker/operators"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// watchTick is the minimum time between two states in a WatchOperation.
const watchTick = 100 * time.Millisecond

// ListOperations lists the long jobs of all nodes that answer.
func (a *adminServer) ListOperations(ctx context.Context, req *brokerv1.ListOperationsRequest) (*brokerv1.ListOperationsResponse, error) {
	all, silent, err := a.b.Operators.Operations(ctx, req.GetRunning())
	if err != nil {
		return nil, err
	}
	out := &brokerv1.ListOperationsResponse{Operations: make([]*brokerv1.Operation, len(all)), Silent: silent}
	for i := range all {
		out.Operations[i] = toOperation(&all[i])
	}
	return out, nil
}

// GetOperation shows a long job.
func (a *adminServer) GetOperation(ctx context.Context, req *brokerv1.GetOperationRequest) (*brokerv1.GetOperationResponse, error) {
	op, err := a.b.Operators.AwaitOperation(ctx, req.GetId(), 0)
	if err != nil {
		return nil, err
	}
	return &brokerv1.GetOperationResponse{Operation: toOperation(&op)}, nil
}

// WatchOperation sends the state of a long job until the job has ended.
func (a *adminServer) WatchOperation(req *brokerv1.WatchOperationRequest, stream grpc.ServerStreamingServer[brokerv1.WatchOperationResponse]) error {
	ctx, cancel := living(stream.Context())
	defer cancel()
	tick := time.NewTicker(watchTick)
	defer tick.Stop()
	for known := uint64(0); ; {
		op, err := a.b.Operators.AwaitOperation(ctx, req.GetId(), known)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if err := stream.Send(&brokerv1.WatchOperationResponse{Operation: toOperation(&op)}); err != nil {
			return err
		}
		if op.State != operators.OperationRunning {
			return nil
		}
		known = op.Version
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// CancelOperation asks a long job to end.
func (a *adminServer) CancelOperation(ctx context.Context, req *brokerv1.CancelOperationRequest) (*brokerv1.CancelOperationResponse, error) {
	op, err := a.b.Operators.CancelOperation(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	return &brokerv1.CancelOperationResponse{Operation: toOperation(&op)}, nil
}

// Drain moves all leadership off a node.
func (a *adminServer) Drain(ctx context.Context, req *brokerv1.DrainRequest) (*brokerv1.DrainResponse, error) {
	var op operators.Operation
	var err error
	switch ms := req.GetTimeoutMs(); {
	case ms < 0:
		return nil, invalid("node", "timeout_ms", "", "must not be negative")
	case req.GetNoWait():
		op, err = a.b.Operators.StartDrain(ctx, req.GetNode(), time.Duration(ms)*time.Millisecond)
	default:
		op, err = a.b.Operators.Drain(ctx, req.GetNode())
	}
	if err != nil {
		return nil, err
	}
	return &brokerv1.DrainResponse{Operation: toOperation(&op)}, nil
}

// Undrain lets a node that was drained take new work again.
func (a *adminServer) Undrain(ctx context.Context, req *brokerv1.UndrainRequest) (*brokerv1.UndrainResponse, error) {
	if err := a.b.Operators.Undrain(ctx, req.GetNode()); err != nil {
		return nil, err
	}
	return &brokerv1.UndrainResponse{}, nil
}

// GrowQueues makes a node a member of queues.
func (a *adminServer) GrowQueues(ctx context.Context, req *brokerv1.GrowQueuesRequest) (*brokerv1.StartOperationResponse, error) {
	return started(a.b.Operators.Grow(ctx, operators.Grow{
		Node: req.GetNode(), Queues: toFilter(req.GetQueues()), EvenOnly: req.GetEvenOnly(), DryRun: req.GetDryRun(),
	}))
}

// ShrinkNode takes a node out of queues.
func (a *adminServer) ShrinkNode(ctx context.Context, req *brokerv1.ShrinkNodeRequest) (*brokerv1.StartOperationResponse, error) {
	return started(a.b.Operators.Shrink(ctx, operators.Shrink{
		Node: req.GetNode(), Queues: toFilter(req.GetQueues()), KeepSize: req.GetKeepSize(), Exclude: req.GetExclude(), DryRun: req.GetDryRun(),
	}))
}

// RebalanceQueues spreads members and leaders over the nodes.
func (a *adminServer) RebalanceQueues(ctx context.Context, req *brokerv1.RebalanceQueuesRequest) (*brokerv1.StartOperationResponse, error) {
	return started(a.b.Operators.Rebalance(ctx, operators.Rebalance{Queues: toFilter(req.GetQueues())}))
}

// RebalanceLeaders spreads leaders over the nodes.
func (a *adminServer) RebalanceLeaders(ctx context.Context, req *brokerv1.RebalanceLeadersRequest) (*brokerv1.StartOperationResponse, error) {
	return started(a.b.Operators.Rebalance(ctx, operators.Rebalance{Queues: toFilter(req.GetQueues()), LeadersOnly: true}))
}

// PlanRebalance lists what a rebalance would move.
func (a *adminServer) PlanRebalance(ctx context.Context, req *brokerv1.PlanRebalanceRequest) (*brokerv1.StartOperationResponse, error) {
	return started(a.b.Operators.Rebalance(ctx, operators.Rebalance{
		Queues: toFilter(req.GetQueues()), LeadersOnly: req.GetLeadersOnly(), DryRun: true,
	}))
}

// AddMember makes a node a member of a queue.
func (a *adminServer) AddMember(ctx context.Context, req *brokerv1.AddMemberRequest) (*brokerv1.StartOperationResponse, error) {
	if req.GetNode() == "" {
		return nil, noNode("node")
	}
	return started(a.b.Operators.ChangeMember(ctx, operators.ChangeMember{VHost: vhostOf(req.GetVhost()), Queue: req.GetQueue(), To: req.GetNode()}))
}

// RemoveMember takes a node out of a queue.
func (a *adminServer) RemoveMember(ctx context.Context, req *brokerv1.RemoveMemberRequest) (*brokerv1.StartOperationResponse, error) {
	if req.GetNode() == "" {
		return nil, noNode("node")
	}
	return started(a.b.Operators.ChangeMember(ctx, operators.ChangeMember{
		VHost: vhostOf(req.GetVhost()), Queue: req.GetQueue(), From: req.GetNode(), DryRun: req.GetDryRun(),
	}))
}

// ReplaceMember makes one node a member of a queue and takes another out.
func (a *adminServer) ReplaceMember(ctx context.Context, req *brokerv1.ReplaceMemberRequest) (*brokerv1.StartOperationResponse, error) {
	if req.GetFrom() == "" {
		return nil, noNode("from")
	}
	if req.GetTo() == "" {
		return nil, noNode("to")
	}
	return started(a.b.Operators.ChangeMember(ctx, operators.ChangeMember{
		VHost: vhostOf(req.GetVhost()), Queue: req.GetQueue(), From: req.GetFrom(), To: req.GetTo(), DryRun: req.GetDryRun(),
	}))
}

// ForgetNode takes a node out of the cluster for good.
func (a *adminServer) ForgetNode(ctx context.Context, req *brokerv1.ForgetNodeRequest) (*brokerv1.StartOperationResponse, error) {
	return started(a.b.Operators.Forget(ctx, req.GetNode(), req.GetReplace(), req.GetDryRun()))
}

// RemoveNode takes a running node out of the cluster for good.
func (a *adminServer) RemoveNode(ctx context.Context, req *brokerv1.RemoveNodeRequest) (*brokerv1.StartOperationResponse, error) {
	return started(a.b.Operators.Remove(ctx, req.GetNode(), req.GetExclude(), req.GetDryRun()))
}

// ReplaceNode gives up a node's stored data.
func (a *adminServer) ReplaceNode(ctx context.Context, req *brokerv1.ReplaceNodeRequest) (*brokerv1.StartOperationResponse, error) {
	return started(a.b.Operators.Replace(ctx, req.GetNode(), req.GetAcceptLoss(), req.GetDryRun()))
}

func noNode(arg string) error {
	return invalid("queue", arg, "", "is empty; name a node of the cluster")
}

func toFilter(f *brokerv1.QueueFilter) operators.QueueFilter {
	return operators.QueueFilter{VHost: f.GetVhost(), Pattern: f.GetPattern()}
}

// started answers a call that begins an operation. A dry run has a plan and no operation.
func started(op operators.Operation, p operators.Plan, err error) (*brokerv1.StartOperationResponse, error) {
	if err != nil {
		return nil, err
	}
	out := &brokerv1.StartOperationResponse{PlanTotal: uint64(p.Total)}
	for _, line := range p.Lines {
		out.Plan = append(out.Plan, valid(line))
	}
	if op.State != "" {
		out.Operation = toOperation(&op)
	}
	return out, nil
}

// toOperation converts an operation; times are in milliseconds.
func toOperation(o *operators.Operation) *brokerv1.Operation {
	state := brokerv1.OperationState_OPERATION_STATE_UNSPECIFIED
	switch o.State {
	case operators.OperationRunning:
		state = brokerv1.OperationState_OPERATION_STATE_RUNNING
	case operators.OperationDone:
		state = brokerv1.OperationState_OPERATION_STATE_DONE
	case operators.OperationFailed:
		state = brokerv1.OperationState_OPERATION_STATE_FAILED
	case operators.OperationCancelled:
		state = brokerv1.OperationState_OPERATION_STATE_CANCELLED
	}
	return &brokerv1.Operation{
		Id: o.ID.String(), Kind: string(o.Kind), Target: valid(o.Target), Node: string(o.ID.Node), State: state, Phase: o.Phase,
		Done: o.Done, Total: o.Total, Unit: o.Unit, Rate: o.Rate, EtaMs: o.ETA.Milliseconds(),
		StartedMs: o.Started.UnixMilli(), UpdatedMs: o.Updated.UnixMilli(), Detail: valid(o.Detail), Error: valid(o.Error),
	}
}
