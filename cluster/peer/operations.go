package peer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// Operations are the long jobs of all nodes. Its methods may be called concurrently.
type Operations struct {
	peers    *Peers
	registry *operation.Registry
}

// NewOperations returns those of all nodes; the registry has this node's.
func NewOperations(peers *Peers, registry *operation.Registry) *Operations {
	return &Operations{peers: peers, registry: registry}
}

// Start runs a job on this node; see operation.Registry.Start.
func (o *Operations) Start(kind operation.Kind, target string, job operation.Job) (operation.Operation, error) {
	return o.registry.Start(kind, target, job)
}

// All returns the operations of all nodes, oldest first, and the nodes of the
// catalog that did not answer.
func (o *Operations) All(ctx context.Context) (all []operation.Operation, silent []id.NodeID, err error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	all = o.registry.List()
	err = o.peers.Ask(ctx, func(ctx context.Context, _ id.NodeID, node nodev1.NodeClient) (func() error, error) {
		r, err := node.ListOperations(ctx, &nodev1.ListOperationsRequest{})
		if err != nil {
			return nil, err
		}
		return func() error {
			for _, x := range r.GetOperations() {
				op, err := FromWire(x)
				if err != nil {
					return err
				}
				all = append(all, op)
			}
			return nil
		}, nil
	}, func(n id.NodeID) { silent = append(silent, n) })
	slices.SortStableFunc(all, func(a, b operation.Operation) int { return a.Started.Compare(b.Started) })
	slices.Sort(silent)
	return all, silent, err
}

// Await returns an operation of any node as soon as its version is above after.
// Errors: operation.ErrUnknown, ErrUnreachable, or that of ctx.
func (o *Operations) Await(ctx context.Context, x operation.ID, after uint64) (operation.Operation, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(o.peers.Life, cancel)()
	if x.Node == o.peers.Node {
		return o.registry.Await(ctx, x, after)
	}
	for {
		node, err := o.peers.Client(x.Node)
		if err != nil {
			return operation.Operation{}, o.unreachable(x, err)
		}
		r, err := node.AwaitOperation(ctx, &nodev1.AwaitOperationRequest{Id: x.String(), After: after})
		if err != nil {
			return operation.Operation{}, o.fromPeer(ctx, x, err)
		}
		if op, err := FromWire(r.GetOperation()); err != nil || op.Version > after {
			return op, err
		}
	}
}

// Cancel asks an operation of any node to end. Errors: operation.ErrUnknown,
// operation.ErrEnded, ErrUnreachable, or that of ctx.
func (o *Operations) Cancel(ctx context.Context, x operation.ID) (operation.Operation, error) {
	if x.Node == o.peers.Node {
		return o.registry.Cancel(x)
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	node, err := o.peers.Client(x.Node)
	if err != nil {
		return operation.Operation{}, o.unreachable(x, err)
	}
	r, err := node.CancelOperation(ctx, &nodev1.CancelOperationRequest{Id: x.String()})
	if err != nil {
		return operation.Operation{}, o.fromPeer(ctx, x, err)
	}
	return FromWire(r.GetOperation())
}

func (o *Operations) unreachable(x operation.ID, err error) error {
	return fmt.Errorf("%w: operation %s runs on node %q: if that node was stopped, the operation has ended with it: %w",
		ErrUnreachable, x, x.Node, err)
}

// fromPeer makes of a peer's answer the error that it stands for.
func (o *Operations) fromPeer(ctx context.Context, x operation.ID, err error) error {
	text, code := status.Convert(err).Message(), status.Code(err)
	switch {
	case code == codes.NotFound:
		return &peerError{operation.ErrUnknown, text}
	case code == codes.FailedPrecondition:
		return &peerError{operation.ErrEnded, text}
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return o.unreachable(x, err)
}

// peerError is an error of another node, whose text says all.
type peerError struct {
	is   error
	text string
}

// Error returns the peer's text.
func (e *peerError) Error() string { return e.text }

// Unwrap returns what a caller decides on.
func (e *peerError) Unwrap() error { return e.is }

// ListOperations lists this node's operations.
func (o *Operations) ListOperations(context.Context, *nodev1.ListOperationsRequest) (*nodev1.ListOperationsResponse, error) {
	out := &nodev1.ListOperationsResponse{}
	for _, op := range o.registry.List() {
		out.Operations = append(out.Operations, ToWire(op))
	}
	return out, nil
}

// AwaitOperation waits for a change of one of this node's operations.
func (o *Operations) AwaitOperation(ctx context.Context, r *nodev1.AwaitOperationRequest) (*nodev1.AwaitOperationResponse, error) {
	x, err := operation.ParseID(r.GetId())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	short, cancel := context.WithTimeout(ctx, awaitAtMost)
	defer cancel()
	op, err := o.registry.Await(short, x, r.GetAfter())
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		op, err = o.registry.Await(ctx, x, 0) // no change: as it is
	}
	if err != nil {
		return nil, WireError(err)
	}
	return &nodev1.AwaitOperationResponse{Operation: ToWire(op)}, nil
}

// CancelOperation cancels one of this node's operations.
func (o *Operations) CancelOperation(_ context.Context, r *nodev1.CancelOperationRequest) (*nodev1.CancelOperationResponse, error) {
	x, err := operation.ParseID(r.GetId())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	op, err := o.registry.Cancel(x)
	if err != nil {
		return nil, WireError(err)
	}
	return &nodev1.CancelOperationResponse{Operation: ToWire(op)}, nil
}

// IsOlder reports whether a call failed because the node's build does not know it.
func IsOlder(err error) bool { return status.Code(err) == codes.Unimplemented }

// WireError makes an error that fromPeer understands.
func WireError(err error) error {
	code := codes.Unavailable
	switch {
	case errors.Is(err, operation.ErrUnknown):
		code = codes.NotFound
	case errors.Is(err, operation.ErrEnded), errors.Is(err, operation.ErrBusy):
		code = codes.FailedPrecondition
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	}
	return status.Error(code, err.Error())
}

// ToWire returns an operation as nodes send it to one another.
func ToWire(o operation.Operation) *nodev1.Operation {
	return &nodev1.Operation{
		Id: o.ID.String(), Kind: string(o.Kind), Target: o.Target, State: string(o.State), Phase: o.Phase, Done: o.Done, Total: o.Total,
		Unit: o.Unit, Detail: o.Detail, Rate: o.Rate, EtaMs: o.ETA.Milliseconds(), StartedMs: o.Started.UnixMilli(),
		UpdatedMs: o.Updated.UnixMilli(), Error: o.Error, Version: o.Version,
	}
}

// FromWire reads it.
func FromWire(o *nodev1.Operation) (operation.Operation, error) {
	x, err := operation.ParseID(o.GetId())
	if err != nil {
		return operation.Operation{}, err
	}
	return operation.Operation{
		ID: x, Kind: operation.Kind(o.GetKind()), Target: o.GetTarget(), State: operation.State(o.GetState()),
		Progress: operation.Progress{
			Phase: o.GetPhase(), Done: o.GetDone(), Total: o.GetTotal(), Unit: o.GetUnit(), Detail: o.GetDetail(),
		},
		Rate: o.GetRate(), ETA: time.Duration(o.GetEtaMs()) * time.Millisecond,
		Started: time.UnixMilli(o.GetStartedMs()), Updated: time.UnixMilli(o.GetUpdatedMs()), Error: o.GetError(),
		Version: cmp.Or(o.GetVersion(), 1),
	}, nil
}
