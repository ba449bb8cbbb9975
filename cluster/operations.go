package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

const (
	// operationTimeout bounds a question to another node about operations.
	operationTimeout = 2 * time.Second
	// awaitAtMost bounds how long a node keeps another one waiting for news of an operation.
	awaitAtMost = 10 * time.Second
)

// kindDrain is the one operation that this package starts by itself.
const kindDrain operation.Kind = "drain"

// StartOperation runs a job on this node; see operation.Registry.Start.
func (c *Cluster) StartOperation(kind operation.Kind, target string, job operation.Job) (operation.Operation, error) {
	return c.operations.Start(kind, target, job)
}

// Operations returns the operations of all nodes, oldest first, and the nodes of the
// catalog that did not answer.
func (c *Cluster) Operations(ctx context.Context) (all []operation.Operation, silent []id.NodeID, err error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	all = c.operations.List()
	err = c.askOthers(ctx, func(ctx context.Context, _ id.NodeID, peer nodev1.NodeClient) (func() error, error) {
		r, err := peer.ListOperations(ctx, &nodev1.ListOperationsRequest{})
		if err != nil {
			return nil, err
		}
		return func() error {
			for _, o := range r.GetOperations() {
				op, err := fromProtoOperation(o)
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

// askOthers asks all other nodes of the catalog at once. What ask returns is run
// afterwards, one after another, as is silent for nodes that do not answer.
func (c *Cluster) askOthers(ctx context.Context, ask func(context.Context, id.NodeID, nodev1.NodeClient) (func() error, error), silent func(id.NodeID)) error {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var errs []error
	for n := range c.View().Nodes() {
		if n.ID == c.cfg.Node {
			continue
		}
		wg.Go(func() {
			var take func() error
			peer, err := c.mux.Client(n.ID)
			if err == nil {
				take, err = ask(ctx, n.ID, peer)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				silent(n.ID)
				return
			}
			errs = append(errs, take())
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// askEach asks all of the nodes at once, and returns those that say yes, in their order.
func askEach(nodes []id.NodeID, ask func(id.NodeID) bool) []id.NodeID {
	yes := make([]bool, len(nodes))
	var asked sync.WaitGroup
	for i, n := range nodes {
		asked.Go(func() { yes[i] = ask(n) })
	}
	asked.Wait()
	var those []id.NodeID
	for i, n := range nodes {
		if yes[i] {
			those = append(those, n)
		}
	}
	return those
}

// AwaitOperation returns an operation of any node as soon as its version is above after.
// Errors: operation.ErrUnknown, traffic.ErrUnavailable, or that of ctx.
func (c *Cluster) AwaitOperation(ctx context.Context, x operation.ID, after uint64) (operation.Operation, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	if x.Node == c.cfg.Node {
		return c.operations.Await(ctx, x, after)
	}
	for {
		peer, err := c.mux.Client(x.Node)
		if err != nil {
			return operation.Operation{}, c.unreachable(x, err)
		}
		r, err := peer.AwaitOperation(ctx, &nodev1.AwaitOperationRequest{Id: x.String(), After: after})
		if err != nil {
			return operation.Operation{}, c.fromPeer(ctx, x, err)
		}
		if op, err := fromProtoOperation(r.GetOperation()); err != nil || op.Version > after {
			return op, err
		}
	}
}

// CancelOperation asks an operation of any node to end. Errors: operation.ErrUnknown,
// operation.ErrEnded, traffic.ErrUnavailable, or that of ctx.
func (c *Cluster) CancelOperation(ctx context.Context, x operation.ID) (operation.Operation, error) {
	if x.Node == c.cfg.Node {
		return c.operations.Cancel(x)
	}
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	peer, err := c.mux.Client(x.Node)
	if err != nil {
		return operation.Operation{}, c.unreachable(x, err)
	}
	r, err := peer.CancelOperation(ctx, &nodev1.CancelOperationRequest{Id: x.String()})
	if err != nil {
		return operation.Operation{}, c.fromPeer(ctx, x, err)
	}
	return fromProtoOperation(r.GetOperation())
}

// StartDrain starts to move all leadership off a node, as Drain, or returns the drain
// that runs there already. limit bounds it; 0: it goes on until it is over.
func (c *Cluster) StartDrain(ctx context.Context, n id.NodeID, limit time.Duration) (operation.Operation, error) {
	if n == "" || n == c.cfg.Node {
		c.draining.Store(true) // from now on, not from the job's first step
		op, err := c.operations.Start(kindDrain, fmt.Sprintf("node %q", c.cfg.Node), func(ctx context.Context, report func(operation.Progress)) error {
			if limit > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, limit)
				defer cancel()
			}
			return c.Drain(ctx, report)
		})
		if errors.Is(err, operation.ErrBusy) && op.Kind == kindDrain {
			return op, nil
		}
		return op, err
	}
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	peer, err := c.mux.Client(n)
	if err != nil {
		return operation.Operation{}, fmt.Errorf("%w: node %q: %w", ErrNodeUnreachable, n, err)
	}
	r, err := peer.Drain(ctx, &nodev1.DrainRequest{TimeoutMs: limit.Milliseconds()})
	if err != nil {
		return operation.Operation{}, fmt.Errorf("%w: node %q: %w", ErrNodeUnreachable, n, err)
	}
	return fromProtoOperation(r.GetOperation())
}

func (c *Cluster) unreachable(x operation.ID, err error) error {
	return fmt.Errorf("%w: operation %s runs on node %q: if that node was stopped, the operation has ended with it: %w",
		ErrNodeUnreachable, x, x.Node, err)
}

// fromPeer makes of a peer's answer the error that it stands for.
func (c *Cluster) fromPeer(ctx context.Context, x operation.ID, err error) error {
	text, code := status.Convert(err).Message(), status.Code(err)
	switch {
	case code == codes.NotFound:
		return &peerError{operation.ErrUnknown, text}
	case code == codes.FailedPrecondition:
		return &peerError{operation.ErrEnded, text}
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return c.unreachable(x, err)
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

// Drain starts the drain of this node for a peer.
func (s calls) Drain(ctx context.Context, r *nodev1.DrainRequest) (*nodev1.DrainResponse, error) {
	op, err := s.c.StartDrain(ctx, "", time.Duration(r.GetTimeoutMs())*time.Millisecond)
	if err != nil {
		return nil, toPeer(err)
	}
	return &nodev1.DrainResponse{Operation: toProtoOperation(op)}, nil
}

// ListOperations lists this node's operations.
func (s calls) ListOperations(context.Context, *nodev1.ListOperationsRequest) (*nodev1.ListOperationsResponse, error) {
	out := &nodev1.ListOperationsResponse{}
	for _, op := range s.c.operations.List() {
		out.Operations = append(out.Operations, toProtoOperation(op))
	}
	return out, nil
}

// AwaitOperation waits for news of one of this node's operations.
func (s calls) AwaitOperation(ctx context.Context, r *nodev1.AwaitOperationRequest) (*nodev1.AwaitOperationResponse, error) {
	x, err := operation.ParseID(r.GetId())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	short, cancel := context.WithTimeout(ctx, awaitAtMost)
	defer cancel()
	op, err := s.c.operations.Await(short, x, r.GetAfter())
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		op, err = s.c.operations.Await(ctx, x, 0) // no news: as it is
	}
	if err != nil {
		return nil, toPeer(err)
	}
	return &nodev1.AwaitOperationResponse{Operation: toProtoOperation(op)}, nil
}

// CancelOperation cancels one of this node's operations.
func (s calls) CancelOperation(_ context.Context, r *nodev1.CancelOperationRequest) (*nodev1.CancelOperationResponse, error) {
	x, err := operation.ParseID(r.GetId())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	op, err := s.c.operations.Cancel(x)
	if err != nil {
		return nil, toPeer(err)
	}
	return &nodev1.CancelOperationResponse{Operation: toProtoOperation(op)}, nil
}

// toPeer makes an error that fromPeer understands.
func toPeer(err error) error {
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

func toProtoOperation(o operation.Operation) *nodev1.Operation {
	return &nodev1.Operation{
		Id: o.ID.String(), Kind: string(o.Kind), Target: o.Target, State: string(o.State), Phase: o.Phase, Done: o.Done, Total: o.Total,
		Unit: o.Unit, Detail: o.Detail, Rate: o.Rate, EtaMs: o.ETA.Milliseconds(), StartedMs: o.Started.UnixMilli(),
		UpdatedMs: o.Updated.UnixMilli(), Error: o.Error, Version: o.Version,
	}
}

func fromProtoOperation(o *nodev1.Operation) (operation.Operation, error) {
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

// NodeDetails are what a node says of itself.
type NodeDetails struct {
	Draining bool
	Start    StartProgress
	Reads    catalog.Version   // newest that its build reads
	Counters map[string]uint64 // of the node as gateway since its start (ST-2)
}

// NodeDetails asks all nodes of the catalog; those that do not answer are left out.
func (c *Cluster) NodeDetails(ctx context.Context) (map[id.NodeID]NodeDetails, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	out := map[id.NodeID]NodeDetails{c.cfg.Node: {
		Draining: c.Draining(), Start: c.StartProgress(), Reads: catalog.NewestVersion, Counters: c.counters(),
	}}
	err := c.askOthers(ctx, func(ctx context.Context, n id.NodeID, peer nodev1.NodeClient) (func() error, error) {
		r, err := peer.NodeStatus(ctx, &nodev1.NodeStatusRequest{Brief: true})
		if err != nil {
			return nil, err
		}
		s := r.GetStart()
		return func() error {
			out[n] = NodeDetails{Draining: r.GetDraining(), Reads: readsOf(r), Counters: r.GetCounters(), Start: StartProgress{
				Phase: StartPhase(s.GetPhase()), Done: s.GetDone(), Total: s.GetTotal(), Unit: s.GetUnit(),
			}}
			return nil
		}, nil
	}, func(id.NodeID) {})
	return out, err
}
