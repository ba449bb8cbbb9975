package operators_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/failure"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/operators"
	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/internal/testnode"
)

// newOperators returns the operators of one real node, n, with the queue q. Calls with ctx may do everything.
func newOperators(t *testing.T) (o *operators.Operators, ctx context.Context) {
	t.Helper()
	b := broker.New(testnode.Start(t), broker.Config{})
	t.Cleanup(b.Close)
	ctx = identity.WithIdentity(t.Context(), identity.Itself())
	if _, err := b.DeclareQueue(ctx, broker.DeclareQueue{VHost: "/", Name: "q", Durable: true}); err != nil {
		t.Fatal(err)
	}
	return b.Operators, ctx
}

// A request that makes no sense is refused before anything starts, and so is its plan.
func TestRefuses(t *testing.T) {
	o, ctx := newOperators(t)
	plan := func(_ operators.Operation, _ operators.Plan, err error) error { return err }
	for what, row := range map[string]struct {
		err   error
		class failure.Class
		says  string
	}{
		"grow to a node that is not there":   {plan(o.Grow(ctx, operators.Grow{Node: "x"})), failure.NotFound, `node "x" is not in the cluster`},
		"grow by a pattern without end":      {plan(o.Grow(ctx, operators.Grow{Node: "n", Queues: operators.QueueFilter{Pattern: "["}})), failure.PreconditionFailed, "pattern = [: cannot be read"},
		"grow in a vhost that is not there":  {plan(o.Grow(ctx, operators.Grow{Node: "n", Queues: operators.QueueFilter{VHost: "v"}})), failure.NotFound, `vhost "v"`},
		"shrink with an unknown exclusion":   {plan(o.Shrink(ctx, operators.Shrink{Node: "n", Exclude: []string{"x"}})), failure.NotFound, `node "x"`},
		"add a member that it has":           {plan(o.ChangeMember(ctx, operators.ChangeMember{VHost: "/", Queue: "q", To: "n"})), failure.PreconditionFailed, "is a member of the queue already"},
		"add a node that is not there":       {plan(o.ChangeMember(ctx, operators.ChangeMember{VHost: "/", Queue: "q", To: "x"})), failure.NotFound, `node "x"`},
		"remove what is no member":           {plan(o.ChangeMember(ctx, operators.ChangeMember{VHost: "/", Queue: "q", From: "x"})), failure.PreconditionFailed, "is not a member of the queue"},
		"remove the last member":             {plan(o.ChangeMember(ctx, operators.ChangeMember{VHost: "/", Queue: "q", From: "n", DryRun: true})), failure.PreconditionFailed, "is the last member"},
		"change a queue that is not there":   {plan(o.ChangeMember(ctx, operators.ChangeMember{VHost: "/", Queue: "nix", To: "n"})), failure.NotFound, `queue "nix"`},
		"forget a node that is not there":    {plan(o.Forget(ctx, "x", false, true)), failure.NotFound, `node "x"`},
		"replace this node, which runs":      {plan(o.Replace(ctx, "n", true, false)), failure.PreconditionFailed, `node "n"`},
		"remove this node":                   {plan(o.Remove(ctx, "n", nil, false)), failure.PreconditionFailed, "cannot carry out its own removal, and is connected to no other node"},
		"a leader that is no member":         {o.TransferLeadership(ctx, "/", "q", "x"), failure.PreconditionFailed, "is not a member of the queue"},
		"a leader of a queue that is absent": {o.TransferLeadership(ctx, "/", "nix", "n"), failure.NotFound, `queue "nix"`},
	} {
		var e *failure.Error
		if !errors.As(row.err, &e) || e.Class != row.class || !strings.Contains(row.err.Error(), row.says) {
			t.Errorf("%s: %v; want %v that says %q", what, row.err, row.class, row.says)
		}
	}
	if all, _, err := o.Operations(ctx, false); err != nil || len(all) != 0 {
		t.Errorf("operations %+v, %v", all, err)
	}
}

// A long operation can be followed by its id until it has ended, and be cancelled. Its end names the reason for the
// cancellation.
func TestFollowsOperations(t *testing.T) {
	o, ctx := newOperators(t)
	done, _, err := o.Rebalance(ctx, operators.Rebalance{Queues: operators.QueueFilter{VHost: "/"}})
	if err != nil {
		t.Fatal(err)
	}
	for version := uint64(0); done.State == operators.OperationRunning; version = done.Version {
		if done, err = o.AwaitOperation(ctx, done.ID.String(), version); err != nil {
			t.Fatal(err)
		}
	}
	if done.State != operators.OperationDone || done.Target != `all queues in vhost "/"` {
		t.Errorf("%+v", done)
	}
	c, err := startWaiting(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if running, silent, err := o.Operations(ctx, true); err != nil || len(running) != 1 || running[0].ID != c.ID || len(silent) > 0 {
		t.Errorf("running: %+v, %v, %v", running, silent, err)
	}
	if _, err := o.CancelOperation(ctx, c.ID.String()); err != nil {
		t.Fatal(err)
	}
	for version := c.Version; c.State == operators.OperationRunning; version = c.Version {
		if c, err = o.AwaitOperation(ctx, c.ID.String(), version); err != nil {
			t.Fatal(err)
		}
	}
	if all, _, err := o.Operations(ctx, false); c.State != operators.OperationCancelled || len(all) != 2 || err != nil {
		t.Errorf("%+v of %d, %v", c, len(all), err)
	}
	for _, id := range []string{"", "n", "n.1", "n.x.1"} {
		var e *failure.Error
		if _, err := o.AwaitOperation(ctx, id, 0); !errors.As(err, &e) || e.Class != failure.PreconditionFailed || e.Value != id {
			t.Errorf("%q: %v", id, err)
		}
	}
	var e *failure.Error
	if _, err := o.CancelOperation(ctx, "n.1.99"); !errors.As(err, &e) || e.Class != failure.NotFound {
		t.Errorf("an operation that was never: %v", err)
	}
}

// The node reports itself, with details if they are asked for. A cluster of one version has nothing to finalise.
func TestStatusOfOneNode(t *testing.T) {
	o, ctx := newOperators(t)
	for _, details := range []bool{false, true} {
		s, err := o.ClusterStatus(ctx, details)
		if err != nil || s.Cluster != "test" || s.Node != "n" || s.Hindrance != "" || s.ViewAge < 0 || len(s.Nodes) != 1 {
			t.Fatalf("%+v, %v", s, err)
		}
		n := s.Nodes[0]
		if n.ID != "n" || n.Version != "test" || n.Replicas != 1 || n.Leaders != 1 || n.Answers != details || details != (len(n.Counters) > 0) {
			t.Errorf("details %v: %+v", details, n)
		}
	}
	_, newest, held, err := o.Finalise(ctx, true)
	if err != nil || newest == 0 || len(held) > 0 {
		t.Errorf("version %d, held back by %v, %v", newest, held, err)
	}
	if _, now, _, err := o.Finalise(ctx, false); err != nil || now != newest {
		t.Errorf("version %d, want %d; %v", now, newest, err)
	}
	if err := o.TransferLeadership(ctx, "/", "q", "n"); err != nil {
		t.Errorf("to the member that leads: %v", err)
	}
}

// startWaiting starts an operation that continues until it is cancelled.
func startWaiting(ctx context.Context, o *operators.Operators) (operators.Operation, error) {
	return o.Start(ctx, "wait", "nothing", func(ctx context.Context, _ func(operation.Progress)) error {
		<-ctx.Done()
		return ctx.Err()
	})
}
