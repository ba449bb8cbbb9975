package testcluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/internal/testcluster"
	brokerv1 "github.com/quorate/quorate/proto/broker/v1"
)

// admin is a client of one node alone.
func admin(t *testing.T, c *testcluster.Cluster, i int) *client.Client {
	t.Helper()
	cl, err := client.Dial(testContext(t), client.Config{Addresses: c.Addrs()[i : i+1], FixedAddresses: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

const (
	running   = brokerv1.OperationState_OPERATION_STATE_RUNNING
	done      = brokerv1.OperationState_OPERATION_STATE_DONE
	failed    = brokerv1.OperationState_OPERATION_STATE_FAILED
	cancelled = brokerv1.OperationState_OPERATION_STATE_CANCELLED
)

// Every node shows, watches and cancels the operations of all.
func TestOperations(t *testing.T) {
	c := testcluster.Start(t, 3)
	var nodes []*client.Client
	for i := range 3 {
		nodes = append(nodes, admin(t, c, i))
	}
	t.Run("seen alike", func(t *testing.T) { testSeenAlike(t, c, nodes) })
	t.Run("cancelled from elsewhere", func(t *testing.T) { testCancelled(t, c, nodes) })
	t.Run("unknown", func(t *testing.T) { testUnknownOperation(t, c, nodes) })
	t.Run("plans and refusals", func(t *testing.T) { testPlans(t, c, nodes[0]) })
	t.Run("drain of another node", func(t *testing.T) { testDrainOther(t, c, nodes) })
	t.Run("node of an operation is lost", func(t *testing.T) { testLostNode(t, c, nodes) })
}

func testSeenAlike(t *testing.T, c *testcluster.Cluster, nodes []*client.Client) {
	ctx := testContext(t)
	steps := make(chan operation.Progress)
	op, err := c.Cluster(1).StartOperation("test", "three steps", func(ctx context.Context, report func(operation.Progress)) error {
		for p := range steps {
			report(p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range nodes {
		all, err := n.Operations(ctx, true)
		if err != nil || len(all.GetOperations()) != 1 || len(all.GetSilent()) != 0 {
			t.Fatalf("node %d: %v, %v", i, all, err)
		}
		got := all.GetOperations()[0]
		if got.GetId() != op.ID.String() || got.GetNode() != c.Name(1) || got.GetTarget() != "three steps" || got.GetState() != running {
			t.Errorf("node %d shows %v", i, got)
		}
	}
	seen := make(chan *brokerv1.Operation)
	last := make(chan *brokerv1.Operation, 1)
	go func() {
		end, err := nodes[2].WatchOperation(ctx, op.ID.String(), func(o *brokerv1.Operation) { seen <- o })
		if err != nil {
			t.Error(err)
		}
		last <- end
	}()
	<-seen
	for i := range int64(3) {
		steps <- operation.Progress{Phase: "walk", Done: i + 1, Total: 3, Unit: "steps", Detail: fmt.Sprint("step ", i)}
		for o := range seen {
			if o.GetDone() == i+1 {
				break
			}
		}
	}
	close(steps)
	if o := <-seen; o.GetState() != done || o.GetPhase() != "walk" || o.GetUnit() != "steps" || o.GetDetail() != "step 2" || o.GetTotal() != 3 {
		t.Errorf("the end was seen as %v", o)
	}
	if end := <-last; end.GetState() != done {
		t.Errorf("ended as %v", end)
	}
	for i, n := range nodes {
		if o, err := n.Operation(ctx, op.ID.String()); err != nil || o.GetState() != done {
			t.Errorf("node %d: %v, %v", i, o, err)
		}
		if all, err := n.Operations(ctx, true); err != nil || len(all.GetOperations()) != 0 {
			t.Errorf("node %d: %v, %v still run", i, all, err)
		}
	}
}

func testCancelled(t *testing.T, c *testcluster.Cluster, nodes []*client.Client) {
	ctx := testContext(t)
	op, err := c.Cluster(0).StartOperation("test", "waits", func(ctx context.Context, report func(operation.Progress)) error {
		report(operation.Progress{Done: 1, Total: 2, Unit: "queues"})
		<-ctx.Done()
		return ctx.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nodes[2].CancelOperation(ctx, op.ID.String()); err != nil {
		t.Fatal(err)
	}
	end, err := nodes[1].WatchOperation(ctx, op.ID.String(), func(*brokerv1.Operation) {})
	if err != nil || end.GetState() != cancelled || end.GetDone() != 1 {
		t.Errorf("%v, %v", end, err)
	}
	var refused *client.Error
	if _, err := nodes[1].CancelOperation(ctx, op.ID.String()); !errors.As(err, &refused) || refused.Code != codes.FailedPrecondition {
		t.Errorf("cancelling it again: %v", err)
	}
}

func testUnknownOperation(t *testing.T, c *testcluster.Cluster, nodes []*client.Client) {
	ctx := testContext(t)
	for id, want := range map[string]codes.Code{
		c.Name(0) + ".1.999":      codes.NotFound,
		c.Name(1) + ".1.999":      codes.NotFound,
		c.Name(1) + ".99.1":       codes.NotFound,
		"nonsense":                codes.InvalidArgument,
		c.Name(2) + ".1.not-a-no": codes.InvalidArgument,
	} {
		var e *client.Error
		if _, err := nodes[0].Operation(ctx, id); !errors.As(err, &e) || e.Code != want {
			t.Errorf("%s: %v, want %v", id, err, want)
		}
		if _, err := nodes[0].WatchOperation(ctx, id, func(*brokerv1.Operation) {}); !errors.As(err, &e) || e.Code != want {
			t.Errorf("watching %s: %v, want %v", id, err, want)
		}
		if _, err := nodes[0].CancelOperation(ctx, id); !errors.As(err, &e) || e.Code != want {
			t.Errorf("cancelling %s: %v, want %v", id, err, want)
		}
	}
}

// What would be done is told without doing it, and what cannot be meant is refused before
// anything is started.
func testPlans(t *testing.T, c *testcluster.Cluster, cl *client.Client) {
	ctx := testContext(t)
	for _, q := range []struct {
		name  string
		group int64
	}{{"plan-one", 1}, {"plan-three", 3}} {
		if _, err := cl.DeclareQueue(ctx, client.Queue{Name: q.name, Arguments: client.Table{"x-quorum-initial-group-size": q.group}}); err != nil {
			t.Fatal(err)
		}
	}
	one, err := cl.GetQueue(ctx, "/", "plan-one")
	if err != nil {
		t.Fatal(err)
	}
	host := one.GetMembers()[0]
	other := c.Name((c.Index(host) + 1) % 3)
	all := &brokerv1.QueueFilter{Pattern: "plan-*"}
	plan := func(r *brokerv1.StartOperationResponse, err error) []string {
		t.Helper()
		if err != nil || r.GetOperation() != nil || r.GetPlanTotal() != uint64(len(r.GetPlan())) {
			t.Errorf("%v, %v", r, err)
		}
		return r.GetPlan()
	}
	for what, row := range map[string]struct{ got, want []string }{
		"grow": {
			plan(cl.GrowQueues(ctx, &brokerv1.GrowQueuesRequest{Node: other, Queues: all, DryRun: true})),
			[]string{fmt.Sprintf(`queue "plan-one" in vhost "/": node %q becomes member 2`, other)},
		},
		"grow even": {plan(cl.GrowQueues(ctx, &brokerv1.GrowQueuesRequest{Node: other, Queues: all, EvenOnly: true, DryRun: true})), nil},
		"shrink": {
			plan(cl.ShrinkNode(ctx, &brokerv1.ShrinkNodeRequest{Node: host, Queues: all, DryRun: true})),
			[]string{
				fmt.Sprintf(`queue "plan-one" in vhost "/": node %q is the last member and stays`, host),
				fmt.Sprintf(`queue "plan-three" in vhost "/": node %q leaves, 2 of 3 members stay`, host),
			},
		},
		"remove": {
			plan(cl.RemoveMember(ctx, &brokerv1.RemoveMemberRequest{Queue: "plan-three", Node: host, DryRun: true})),
			[]string{fmt.Sprintf(`queue "plan-three" in vhost "/": node %q leaves, its copy of the messages is deleted`, host)},
		},
	} {
		if !slices.Equal(row.got, row.want) {
			t.Errorf("%s: %q, want %q", what, row.got, row.want)
		}
	}
	if p := plan(cl.ForgetNode(ctx, &brokerv1.ForgetNodeRequest{Node: host, Replace: true, DryRun: true})); len(p) != 3 {
		t.Errorf("forget: %q", p)
	}
	for what, row := range map[string]struct {
		code codes.Code
		text string
		call func() (*brokerv1.StartOperationResponse, error)
	}{
		"no such node": {codes.NotFound, "is not in the cluster", func() (*brokerv1.StartOperationResponse, error) {
			return cl.GrowQueues(ctx, &brokerv1.GrowQueuesRequest{Node: "nobody"})
		}},
		"bad pattern": {codes.InvalidArgument, "cannot be read", func() (*brokerv1.StartOperationResponse, error) {
			return cl.RebalanceQueues(ctx, &brokerv1.RebalanceQueuesRequest{Queues: &brokerv1.QueueFilter{Pattern: "[a"}})
		}},
		"no such vhost": {codes.NotFound, "does not exist", func() (*brokerv1.StartOperationResponse, error) {
			return cl.ShrinkNode(ctx, &brokerv1.ShrinkNodeRequest{Node: host, Queues: &brokerv1.QueueFilter{Vhost: "v"}})
		}},
		"a member already": {codes.FailedPrecondition, "is a member of the queue already", func() (*brokerv1.StartOperationResponse, error) {
			return cl.AddMember(ctx, &brokerv1.AddMemberRequest{Queue: "plan-one", Node: host})
		}},
		"not a member": {codes.FailedPrecondition, "is not a member", func() (*brokerv1.StartOperationResponse, error) {
			return cl.ReplaceMember(ctx, &brokerv1.ReplaceMemberRequest{Queue: "plan-one", From: other, To: host})
		}},
		"the last one": {codes.FailedPrecondition, "the last member", func() (*brokerv1.StartOperationResponse, error) {
			return cl.RemoveMember(ctx, &brokerv1.RemoveMemberRequest{Queue: "plan-one", Node: host})
		}},
		"no node": {codes.InvalidArgument, "name a node", func() (*brokerv1.StartOperationResponse, error) {
			return cl.AddMember(ctx, &brokerv1.AddMemberRequest{Queue: "plan-one"})
		}},
	} {
		_, err := call(row.call)
		if err.Code() != row.code || !strings.Contains(err.Message(), row.text) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// call returns the status that an error of the client was made from.
func call[R any](f func() (R, error)) (R, *status.Status) {
	r, err := f()
	var e *client.Error
	if !errors.As(err, &e) {
		return r, status.New(codes.Unknown, fmt.Sprint(err))
	}
	return r, status.New(e.Code, e.Text)
}

// Any node starts the drain of any other; the details show it.
func testDrainOther(t *testing.T, c *testcluster.Cluster, nodes []*client.Client) {
	ctx := testContext(t)
	op, err := nodes[0].StartDrain(ctx, c.Name(1), 0)
	if err != nil {
		t.Fatal(err)
	}
	end, err := nodes[2].WatchOperation(ctx, op.GetId(), func(*brokerv1.Operation) {})
	if err != nil || end.GetState() != done || end.GetNode() != c.Name(1) || end.GetKind() != "drain" || end.GetDone() != end.GetTotal() {
		t.Errorf("%v, %v", end, err)
	}
	// A follower may learn of the new leaders a moment later; until then it is starting.
	for {
		st, err := nodes[0].ClusterDetails(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if asDrained(st, c.Name(1)) {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%v", st)
		}
	}
}

// asDrained tells whether all nodes have started and only the one drains.
func asDrained(st *brokerv1.ClusterStatusResponse, node string) bool {
	return !slices.ContainsFunc(st.GetNodes(), func(n *brokerv1.ClusterNode) bool {
		return n.GetDraining() != (n.GetId() == node) || n.GetStart().GetPhase() != "started"
	})
}

func testLostNode(t *testing.T, c *testcluster.Cluster, nodes []*client.Client) {
	ctx := testContext(t)
	op, err := c.Cluster(1).StartOperation("test", "ends with its node", func(ctx context.Context, _ func(operation.Progress)) error {
		<-ctx.Done()
		return ctx.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Kill(1)
	testcluster.Poll(t, "the list names the silent node", func() error {
		all, err := nodes[0].Operations(ctx, false)
		if err == nil && !slices.Equal(all.GetSilent(), []string{c.Name(1)}) {
			err = fmt.Errorf("silent: %q", all.GetSilent())
		}
		return err
	})
	c.Restart(1)
	testcluster.Poll(t, "the operation has ended", func() error {
		_, err := nodes[0].Operation(ctx, op.ID.String())
		var e *client.Error
		if !errors.As(err, &e) || e.Code != codes.NotFound || !strings.Contains(e.Text, "restarted") {
			return fmt.Errorf("it is: %w", err)
		}
		return nil
	})
}

// A drain that cannot go on names the queue that holds it up.
func TestDrainHeldUp(t *testing.T) {
	c := testcluster.Start(t, 1)
	cl := admin(t, c, 0)
	ctx := testContext(t)
	if _, err := cl.DeclareQueue(ctx, client.Queue{Name: "lonely"}); err != nil {
		t.Fatal(err)
	}
	op, err := cl.StartDrain(ctx, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	end, err := cl.WatchOperation(ctx, op.GetId(), func(*brokerv1.Operation) {})
	if err != nil || end.GetState() != failed || !strings.Contains(end.GetError(), `queue "lonely" in vhost "/"`) ||
		!strings.Contains(end.GetDetail(), "held up by") {
		t.Errorf("%v, %v", end, err)
	}
}
