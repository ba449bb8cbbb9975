package testcluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/internal/testcluster"
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
	running   = client.OperationRunning
	done      = client.OperationDone
	failed    = client.OperationFailed
	cancelled = client.OperationCancelled
)

// Every node shows, watches and cancels the operations of all.
func TestOperations(t *testing.T) {
	t.Parallel()
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
	op, err := c.Cluster(1).Jobs().Start("test", "three steps", func(ctx context.Context, report func(operation.Progress)) error {
		for p := range steps {
			report(p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range nodes {
		all, err := client.Collect(n.Operations(ctx, client.ListOperationsRequest{Running: true}))
		if err != nil || len(all) != 1 {
			t.Fatalf("node %d: %v, %v", i, all, err)
		}
		got := all[0]
		if got.ID != op.ID.String() || got.Node != c.Name(1) || got.Target != "three steps" || got.State != running {
			t.Errorf("node %d shows %v", i, got)
		}
	}
	seen := make(chan client.Operation)
	last := make(chan client.Operation, 1)
	go func() {
		end, err := nodes[2].WatchOperation(ctx, op.ID.String(), func(o client.Operation) { seen <- o })
		if err != nil {
			t.Error(err)
		}
		last <- end
	}()
	<-seen
	for i := range int64(3) {
		steps <- operation.Progress{Phase: "walk", Done: i + 1, Total: 3, Unit: "steps", Detail: fmt.Sprint("step ", i)}
		for o := range seen {
			if o.Done == i+1 {
				break
			}
		}
	}
	close(steps)
	if o := <-seen; o.State != done || o.Phase != "walk" || o.Unit != "steps" || o.Detail != "step 2" || o.Total != 3 {
		t.Errorf("the end was seen as %v", o)
	}
	if end := <-last; end.State != done {
		t.Errorf("ended as %v", end)
	}
	for i, n := range nodes {
		if o, err := n.Operation(ctx, op.ID.String()); err != nil || o.State != done {
			t.Errorf("node %d: %v, %v", i, o, err)
		}
		if all, err := client.Collect(n.Operations(ctx, client.ListOperationsRequest{Running: true})); err != nil || len(all) != 0 {
			t.Errorf("node %d: %v, %v still run", i, all, err)
		}
	}
}

func testCancelled(t *testing.T, c *testcluster.Cluster, nodes []*client.Client) {
	ctx := testContext(t)
	op, err := c.Cluster(0).Jobs().Start("test", "waits", func(ctx context.Context, report func(operation.Progress)) error {
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
	end, err := nodes[1].WatchOperation(ctx, op.ID.String(), func(client.Operation) {})
	if err != nil || end.State != cancelled || end.Done != 1 {
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
		if _, err := nodes[0].WatchOperation(ctx, id, func(client.Operation) {}); !errors.As(err, &e) || e.Code != want {
			t.Errorf("watching %s: %v, want %v", id, err, want)
		}
		if _, err := nodes[0].CancelOperation(ctx, id); !errors.As(err, &e) || e.Code != want {
			t.Errorf("cancelling %s: %v, want %v", id, err, want)
		}
	}
}

// What would be done is reported without doing it, and what cannot be meant is refused before
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
	one, err := cl.GetQueue(ctx, client.QueueRef{VHost: "/", Name: "plan-one"})
	if err != nil {
		t.Fatal(err)
	}
	host := one.Members[0]
	other := c.Name((c.Index(host) + 1) % 3)
	all := client.QueueFilter{Pattern: "plan-*"}
	plan := func(r client.StartedOperation, err error) []string {
		t.Helper()
		if err != nil || r.Operation != nil || r.PlanTotal != uint64(len(r.Plan)) {
			t.Errorf("%v, %v", r, err)
		}
		return r.Plan
	}
	for what, row := range map[string]struct{ got, want []string }{
		"grow": {
			plan(cl.GrowQueues(ctx, client.GrowQueuesRequest{Node: other, Queues: all, DryRun: true})),
			[]string{fmt.Sprintf(`queue "plan-one" in vhost "/": node %q becomes member 2`, other)},
		},
		"grow even": {plan(cl.GrowQueues(ctx, client.GrowQueuesRequest{Node: other, Queues: all, EvenOnly: true, DryRun: true})), nil},
		"shrink": {
			plan(cl.ShrinkNode(ctx, client.ShrinkNodeRequest{Node: host, Queues: all, DryRun: true})),
			[]string{
				fmt.Sprintf(`queue "plan-one" in vhost "/": node %q is the last member and stays`, host),
				fmt.Sprintf(`queue "plan-three" in vhost "/": node %q leaves, 2 of 3 members stay`, host),
			},
		},
		"remove": {
			plan(cl.RemoveMember(ctx, client.RemoveMemberRequest{Queue: "plan-three", Node: host, DryRun: true})),
			[]string{fmt.Sprintf(`queue "plan-three" in vhost "/": node %q leaves, its copy of the messages is deleted`, host)},
		},
	} {
		if !slices.Equal(row.got, row.want) {
			t.Errorf("%s: %q, want %q", what, row.got, row.want)
		}
	}
	if p := plan(cl.ForgetNode(ctx, client.ForgetNodeRequest{Node: host, Replace: true, DryRun: true})); len(p) != 3 {
		t.Errorf("forget: %q", p)
	}
	for what, row := range map[string]struct {
		code codes.Code
		text string
		call func() (client.StartedOperation, error)
	}{
		"no such node": {codes.NotFound, "is not in the cluster", func() (client.StartedOperation, error) {
			return cl.GrowQueues(ctx, client.GrowQueuesRequest{Node: "nobody"})
		}},
		"bad pattern": {codes.InvalidArgument, "cannot be read", func() (client.StartedOperation, error) {
			return cl.RebalanceQueues(ctx, client.RebalanceQueuesRequest{Queues: client.QueueFilter{Pattern: "[a"}})
		}},
		"no such vhost": {codes.NotFound, "does not exist", func() (client.StartedOperation, error) {
			return cl.ShrinkNode(ctx, client.ShrinkNodeRequest{Node: host, Queues: client.QueueFilter{VHost: "v"}})
		}},
		"a member already": {codes.FailedPrecondition, "is a member of the queue already", func() (client.StartedOperation, error) {
			return cl.AddMember(ctx, client.AddMemberRequest{Queue: "plan-one", Node: host})
		}},
		"not a member": {codes.FailedPrecondition, "is not a member", func() (client.StartedOperation, error) {
			return cl.ReplaceMember(ctx, client.ReplaceMemberRequest{Queue: "plan-one", From: other, To: host})
		}},
		"the last one": {codes.FailedPrecondition, "the last member", func() (client.StartedOperation, error) {
			return cl.RemoveMember(ctx, client.RemoveMemberRequest{Queue: "plan-one", Node: host})
		}},
		"no node": {codes.InvalidArgument, "name a node", func() (client.StartedOperation, error) {
			return cl.AddMember(ctx, client.AddMemberRequest{Queue: "plan-one"})
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

// Any node starts the drain of any other, and undoes it; the details show it.
func testDrainOther(t *testing.T, c *testcluster.Cluster, nodes []*client.Client) {
	ctx := testContext(t)
	op, err := nodes[0].StartDrain(ctx, client.StartDrainRequest{Node: c.Name(1)})
	if err != nil {
		t.Fatal(err)
	}
	end, err := nodes[2].WatchOperation(ctx, op.ID, func(client.Operation) {})
	if err != nil || end.State != done || end.Node != c.Name(1) || end.Kind != "drain" || end.Done != end.Total {
		t.Errorf("%v, %v", end, err)
	}
	// A follower may learn of the new leaders a moment later; until then it is starting.
	drained := func(node string) {
		t.Helper()
		testcluster.Poll(t, fmt.Sprintf("only node %q drains", node), func() error {
			st, err := nodes[0].ClusterDetails(ctx)
			if err == nil && !asDrained(st, node) {
				err = fmt.Errorf("nodes are %v", st)
			}
			return err
		})
	}
	drained(c.Name(1))
	if err := c.Broker(1).Ready(); err == nil {
		t.Error("a drained node is ready")
	}

	if err := nodes[2].Undrain(ctx, client.UndrainRequest{Node: c.Name(1)}); err != nil {
		t.Fatal(err)
	}
	drained("")
	testcluster.Poll(t, "the node is ready", c.Broker(1).Ready)
	if _, err := nodes[0].DeclareQueue(ctx, client.Queue{Name: "back"}); err != nil {
		t.Fatal(err)
	}
	testcluster.Poll(t, "the node leads again", func() error {
		return nodes[0].TransferLeadership(ctx, client.TransferLeadershipRequest{Queue: "back", Node: c.Name(1)})
	})
	if err := nodes[1].Undrain(ctx, client.UndrainRequest{}); err != nil {
		t.Errorf("a node that is not drained: %v", err)
	}
	var e *client.Error
	if err := nodes[0].Undrain(ctx, client.UndrainRequest{Node: "nobody"}); !errors.As(err, &e) || e.Code != codes.NotFound {
		t.Errorf("an unknown node: %v", err)
	}
	c.Cluster(1).Unloader().Stop()
	if err := nodes[0].Undrain(ctx, client.UndrainRequest{Node: c.Name(1)}); !errors.As(err, &e) || e.Code != codes.Unavailable || !strings.Contains(e.Text, "stops") {
		t.Errorf("a node that stops: %v", err)
	}
}

// asDrained reports whether all nodes have started and only the one drains.
func asDrained(st client.ClusterStatus, node string) bool {
	return !slices.ContainsFunc(st.Nodes, func(n client.ClusterNode) bool {
		return n.Draining != (n.ID == node) || n.Start.Phase != "started"
	})
}

func testLostNode(t *testing.T, c *testcluster.Cluster, nodes []*client.Client) {
	ctx := testContext(t)
	op, err := c.Cluster(1).Jobs().Start("test", "ends with its node", func(ctx context.Context, _ func(operation.Progress)) error {
		<-ctx.Done()
		return ctx.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Kill(1)
	testcluster.Poll(t, "the list names the silent node", func() error {
		_, err := client.Collect(nodes[0].Operations(ctx, client.ListOperationsRequest{}))
		var silent *client.SilentNodesError
		if !errors.As(err, &silent) || !slices.Equal(silent.Nodes, []string{c.Name(1)}) {
			return fmt.Errorf("it ended in: %w", err)
		}
		return nil
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
	t.Parallel()
	c := testcluster.Start(t, 1)
	cl := admin(t, c, 0)
	ctx := testContext(t)
	if _, err := cl.DeclareQueue(ctx, client.Queue{Name: "lonely"}); err != nil {
		t.Fatal(err)
	}
	op, err := cl.StartDrain(ctx, client.StartDrainRequest{})
	if err != nil {
		t.Fatal(err)
	}
	end, err := cl.WatchOperation(ctx, op.ID, func(client.Operation) {})
	if err != nil || end.State != failed || !strings.Contains(end.Error, `queue "lonely" in vhost "/"`) ||
		!strings.Contains(end.Detail, "held up by") {
		t.Errorf("%v, %v", end, err)
	}
}

// A rebalance that is only planned moves nothing. One of leaders alone makes them even and moves no member; then there
// is nothing left to plan.
func TestRebalancePlan(t *testing.T) {
	c := testcluster.Start(t, 3)
	cl := openClient(t, c, func(cfg *client.Config) { cfg.Addresses, cfg.FixedAddresses = c.Addrs()[:1], true })
	ctx := t.Context()
	names := []string{"even-1", "even-2"}
	for _, name := range names {
		if _, err := cl.DeclareQueue(ctx, client.Queue{Name: name, Arguments: client.Table{"x-queue-leader-locator": "client-local"}}); err != nil {
			t.Fatal(err)
		}
	}
	found := func() (leaders, members []string) {
		for _, name := range names {
			q, err := cl.GetQueue(ctx, client.QueueRef{Name: name})
			if err != nil {
				t.Fatal(err)
			}
			leaders, members = append(leaders, q.Leader), append(members, fmt.Sprint(q.Members))
		}
		return leaders, members
	}
	before, members := found()
	if before[0] != before[1] {
		t.Fatalf("leaders %q: want one node to lead both queues", before)
	}
	for _, r := range []client.RebalanceQueuesRequest{{DryRun: true}, {DryRun: true, LeadersOnly: true}} {
		p, err := cl.RebalanceQueues(ctx, r)
		if err != nil || p.Operation != nil || p.PlanTotal != 1 || len(p.Plan) != 1 || !strings.Contains(p.Plan[0], fmt.Sprintf("leads instead of node %q", before[0])) {
			t.Errorf("%+v: %+v, %v", r, p, err)
		}
	}
	if after, _ := found(); !slices.Equal(after, before) {
		t.Errorf("the plan moved leaders from %q to %q", before, after)
	}
	job, err := cl.RebalanceQueues(ctx, client.RebalanceQueuesRequest{LeadersOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	done, err := cl.WatchOperation(ctx, job.Operation.ID, nil)
	if err != nil || done.State != client.OperationDone || done.Target != "leaders of all queues" {
		t.Errorf("%+v, %v", done, err)
	}
	after, moved := found()
	if after[0] == after[1] || !slices.Equal(moved, members) {
		t.Errorf("leaders %q, members %q before and %q after", after, members, moved)
	}
	if p, err := cl.RebalanceQueues(ctx, client.RebalanceQueuesRequest{DryRun: true}); err != nil || p.PlanTotal != 0 {
		t.Errorf("%+v, %v: want nothing left to move", p, err)
	}
}
