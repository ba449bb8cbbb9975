package rest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/management/login"
	"github.com/quorate/quorate/management/rest"
)

// begin sends a request that begins an operation, and follows the operation to its end.
func (a api) begin(do, body string) {
	a.t.Helper()
	code, _, text := a.ask("", do, body)
	var out struct {
		Operation struct{ ID string } `json:"operation"`
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil || code != 202 || out.Operation.ID == "" {
		a.t.Fatalf("%s: %d %s", do, code, text)
	}
	path := "/v1/operations/" + out.Operation.ID
	w := a.watch(path+"/watch", "")
	last := sent{}
	for x := w.event(); x.name != "end"; x = w.event() {
		last = x
	}
	if !strings.Contains(last.data, `"state":"done"`) {
		a.t.Errorf("%s: %+v", do, last)
	}
	a.run([]row{{do: "GET " + path, code: 200, want: has(`"state":"done"`, out.Operation.ID)}})
}

// Members of queues come and go by operations, nodes are drained and taken back, and checks say
// which queues would stand still.
func TestMembersAndNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	c := testcluster.StartMany(t, 3, 0) // a node that is slow for a moment is not taken for dead
	a := on(t, rest.New(whole(c)), c, 0)
	declare(t, a.b, "orders")
	n := c.Name(2)
	const quorum, leader = "/api/queues/quorum/%2F/orders", "/v1/queues/%2F/orders/leader"
	body := `{"node":"` + n + `"}`
	a.run([]row{
		{do: "GET " + quorum + "/status", code: 200, want: has(`"Node Name":"`+n+`"`, `"Raft State":"leader"`, `"Raft State":"follower"`, `"Term":`)},
		{do: "GET /api/queues/quorum/%2F/nix/status", code: 404},
		{who: "stranger", do: "GET " + quorum + "/status", code: 404, want: has("vhost")},
		{who: "manager", do: "GET " + quorum + "/status", code: 200},
		{do: "POST " + quorum + "/replicas/add", body: body, code: 400, want: has("is a member of the queue already")},
		{do: "POST " + quorum + "/replicas/add", body: `{}`, code: 400, want: has("is missing")},
		{do: "POST " + quorum + "/replicas/add", body: `{"node":""}`, code: 400},
		{do: "POST " + quorum + "/replicas/add", body: `{"node":"nix"}`, code: 404},
		{do: "POST " + leader, body: body, code: 204},
		{do: "GET /api/queues/%2F/orders", code: 200, want: has(`"leader":"` + n + `"`)},
		{do: "POST " + leader, body: `{"node":"nix"}`, code: 400, want: has("is not a member of the queue")},
		{do: "POST " + leader, body: `{"node":7}`, code: 400},
		{do: "POST /v1/queues/%2F/nix/leader", body: body, code: 404},
		{who: "manager", do: "POST " + leader, body: body, code: 403},
		{do: "POST " + leader, body: `{}`, code: 204},
		{do: "GET /api/queues/%2F/orders", code: 200, want: has(`!"leader":"` + n + `"`)},
		{do: "DELETE " + quorum + "/replicas/delete?dry_run=true", body: body, code: 200, want: has(`"plan":[`, `"plan_total":1`)},
		{do: "POST /api/queues/quorum/replicas/on/" + n + "/grow", body: `{"strategy":"odd"}`, code: 400, want: has("want all or even")},
		{do: "POST /api/queues/quorum/replicas/on/" + n + "/grow", body: `{"queue_pattern":"^a.*"}`, code: 400, want: has("want .* for all")},
		{do: "POST /api/queues/quorum/replicas/on/" + n + "/grow", body: `{"vhost_pattern":"^nix$"}`, code: 404},
		{do: "POST /api/queues/quorum/replicas/on/nix/grow", body: `{}`, code: 404},
		{do: "DELETE /api/queues/quorum/replicas/on/nix/shrink", code: 404},
	})
	a.begin("DELETE "+quorum+"/replicas/delete", body)
	a.run([]row{
		{do: "GET " + quorum + "/status", code: 200, want: has(`!"Node Name":"` + n + `"`)},
		{do: "GET /api/health/checks/node-is-quorum-critical", code: 503, want: has(`"name":"orders"`, `"total":1`)},
	})
	a.begin("POST "+quorum+"/replicas/add", body)
	a.run([]row{{do: "GET /v1/queues/%2F/orders/operations?columns=kind", code: 200, want: has(`[{"kind":"remove-member"},{"kind":"add-member"}]`)}})
	a.run([]row{{do: "GET /api/health/checks/node-is-quorum-critical", code: 200}})
	a.begin("DELETE /api/queues/quorum/replicas/on/"+n+"/shrink", "")
	a.begin("POST /api/queues/quorum/replicas/on/"+n+"/grow", `{"strategy":"all","vhost_pattern":"^/$","queue_pattern":"^orders$"}`)
	for _, path := range []string{"/api/rebalance/queues", "/v1/nodes/node-0/drain"} {
		a.run([]row{{do: "POST " + path + "?dry_run=true", code: 200, want: has(`"plan":[`, `"plan_total":`, `!"operation"`)}})
	}
	a.run([]row{{do: "POST /v1/nodes/nix/drain?dry_run=true", code: 404}})
	a.begin("POST /api/rebalance/queues", "")
	a.begin("POST /v1/nodes/"+c.Name(0)+"/drain", `{"timeout_ms":20000}`)
	a.run([]row{
		{do: "GET /api/health/checks/ready-to-serve-clients", code: 503, want: has(`"status":"failed"`, "drained")},
		{do: "GET /v1/cluster", code: 200, want: has(`"draining":true`)},
		{do: "POST /v1/nodes/" + c.Name(0) + "/undrain", code: 204},
		{do: "GET /api/health/checks/ready-to-serve-clients", code: 200},
		{do: "GET /v1/operations", code: 200, want: has(`"kind":"shrink-node"`, `"kind":"rebalance-queues"`)},
		{do: "DELETE /v1/operations/nix", code: 400},
		{do: "DELETE /v1/operations/" + n + ".1.99999", code: 404},
		{do: "GET /v1/audit?limit=1000", code: 200, want: has(
			`"member.add"`, `"member.remove"`, `"leader.transfer"`, `"queues.grow"`, `"queues.shrink"`, `"queues.rebalance"`, `"node.drain"`, `"node.undrain"`,
		)},
	})
}

// shows returns nil if a queue of vhost / is shown with these members online, by itself and in a list, and by itself in
// this state: a list may have it from a leader that does not know yet that it has no majority.
func (a api) shows(name, state string, online ...string) error {
	type queue struct {
		Name, State string
		Online      []string
	}
	var alone queue
	var all []queue
	for path, into := range map[string]any{"/api/queues/%2F/" + name: &alone, "/api/queues/%2F": &all} {
		code, _, text := a.ask("", "GET "+path, "")
		if err := json.Unmarshal([]byte(text), into); err != nil || code != 200 {
			return fmt.Errorf("%s: %d %s", path, code, text)
		}
	}
	all = append(slices.DeleteFunc(all, func(q queue) bool { return q.Name != name }), alone)
	for _, q := range all {
		if slices.Sort(q.Online); len(all) != 2 || alone.State != state || !slices.Equal(q.Online, online) {
			return fmt.Errorf("%+v, want it %s with %q online", all, state, online)
		}
	}
	return nil
}

// A member that waits to be rebuilt is not online, although its node is there, and no node may go that its queue
// needs then. A queue that stands still already counts, too, whichever node asks.
func TestCriticalWithLostMembers(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	t.Parallel()
	c := testcluster.StartAs(t, 3, testcluster.Settings{NoRepair: true})
	a := on(t, rest.New(whole(c)), c, 0)
	declare(t, a.b, "orders")
	for _, text := range []string{"spoilt", "behind it"} {
		body := fmt.Sprintf(`{"routing_key":"orders","payload":%q,"payload_encoding":"string","properties":{"delivery_mode":2}}`, text)
		a.run([]row{{do: "POST /api/exchanges/%2F/amq.default/publish", body: body, code: 200, want: has(`"routed":true`)}})
	}
	ctx := identity.WithIdentity(t.Context(), identity.Itself())
	testcluster.Poll(t, "node 2 has both messages", func() error {
		members, err := a.b.Operators.QueueMembers(ctx, "/", "orders", false)
		if err != nil {
			return err
		}
		for _, m := range members {
			if m.AppliedIndex == 0 || m.AppliedIndex != members[0].AppliedIndex {
				return fmt.Errorf("%+v", members)
			}
		}
		return nil
	})
	const check = "GET /api/health/checks/node-is-quorum-critical"
	c.Kill(2)
	c.Spoil(2, "spoilt")
	c.Restart(2)
	testcluster.Poll(t, "node 2 is there, and its member is lost", func() error {
		code, _, text := a.ask("", check, "")
		if code != 503 || !strings.Contains(text, `"lost_members":1`) {
			return errors.New(text)
		}
		return nil
	})
	testcluster.Poll(t, "the member is not online", func() error { return a.shows("orders", "running", c.Name(0), c.Name(1)) })
	a.run([]row{{do: check, code: 503, want: has(`"node":"node-2"`, `"lost_members":1`, `"total":1`, `"name":"orders"`, "not built anew yet")}})
	at := func(i int) api {
		cfg := whole(c)
		cfg.Broker, cfg.Guard, cfg.Node = c.Broker(i), login.New(c.Broker(i)), c.Name(i)
		return on(t, rest.New(cfg), c, i)
	}
	at(2).run([]row{{do: check, code: 200}}) // its own lost members cost nothing when it goes

	at(1).run([]row{{do: "PUT /api/queues/%2F/lone", body: `{"arguments":{"x-quorum-initial-group-size":1}}`, code: 201}}) // on node 1
	c.Kill(1)
	testcluster.Poll(t, "the queue stands still", func() error {
		if code, _, text := a.ask("", check, ""); code != 503 || !strings.Contains(text, `"name":"lone"`) {
			return errors.New(text)
		}
		return a.shows("orders", "minority", c.Name(0))
	})
}
