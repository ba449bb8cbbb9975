package rest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/testcluster"
)

func vhostRows() []row {
	return []row{
		{do: "PUT /api/vhosts/a%2Fb", body: `{"description":"d","tags":"x,y","tracing":true}`, code: 201},
		{do: "PUT /api/vhosts/a%2Fb", body: `{"metadata":{"merge_policies":true,"unknown_arguments":"refuse"}}`, code: 204},
		{do: "GET /api/vhosts/a%2Fb", code: 200, want: has(
			`"name":"a/b"`, `"description":"d"`, `"tags":["x","y"]`, `"tracing":false`, `"default_queue_type":"quorum"`, `"protected_from_deletion":false`,
			`"merge_policies":true`, `"unknown_arguments":"refuse"`,
		)},
		{do: "PUT /api/vhosts/a%2Fb", body: `{"default_queue_type":"classic","tags":[],"unknown_arguments":"warn"}`, code: 204},
		{do: "GET /api/vhosts/a%2Fb", code: 200, want: has(`"description":"d"`, `"tags":[]`, `"default_queue_type":"classic"`, `"unknown_arguments":"warn"`)},
		{do: "GET /api/vhosts?columns=name", code: 200, want: has(`{"name":"/"}`, `{"name":"a/b"}`)},
		{who: "manager", do: "GET /api/vhosts?columns=name", code: 200, want: has(`[{"name":"/"}]`)},
		{who: "manager", do: "GET /api/vhosts/a%2Fb", code: 404},
		{who: "worker", do: "GET /api/vhosts", code: 403},
		{who: "nobody", do: "GET /api/vhosts", code: 401},
		{do: "GET /api/vhosts/nix", code: 404, want: has(`"error":"Object Not Found"`, `vhost \"nix\"`)},
		{do: "PUT /api/vhosts/a%2Fb", body: `{"tags":[1]}`, code: 400, want: has("want strings")},
		{do: "PUT /api/vhosts/a%2Fb", body: `{"tags":1,"description":2,"metadata":3}`, code: 400, want: has("want a list of strings", "description = 2", "metadata = 3")},
		{do: "PUT /api/vhosts/a%2Fb", body: `{"default_queue_type":"stream"}`, code: 400, want: has("stream")},
		{do: "PUT /api/vhosts/a%2Fb", body: `{"unknown_arguments":"x"}`, code: 400, want: has("want warn or refuse")},
		{do: "PUT /api/vhosts/a%2Fb", body: `[]`, code: 400, want: has("is not a JSON object")},
		{do: "PUT /api/vhosts/a%2Fb", body: `{"description":"` + strings.Repeat("d", 1<<20) + `"}`, code: 400, want: has("has more than 1048576 bytes")},
		{do: "PUT /api/vhosts/" + strings.Repeat("n", 255), code: 201},
		{do: "DELETE /api/vhosts/" + strings.Repeat("n", 255), code: 204},
		{do: "PUT /api/vhosts/" + strings.Repeat("n", 256), code: 400},
		{do: "PUT /api/vhosts/%22%C3%A4%E2%82%AC%22%2520", code: 201},
		{do: "GET /api/vhosts/%22%C3%A4%E2%82%AC%22%2520", code: 200, want: has(`"name":"\"ä€\"%20"`)},
		{do: "DELETE /api/vhosts/%22%C3%A4%E2%82%AC%22%2520", code: 204},
		{who: "manager", do: "PUT /api/vhosts/v", code: 403},
		{who: "manager", do: "DELETE /api/vhosts/v", code: 403},

		{do: "GET /api/vhosts/a%2Fb/permissions", code: 200, want: has(`[{"configure":".*","read":".*","user":"guest","vhost":"a/b","write":".*"}]`)},
		{do: "GET /api/vhosts/a%2Fb/topic-permissions", code: 200, want: has(`[]`)},
		{do: "GET /api/vhosts/nix/permissions", code: 404},
		{do: "GET /api/vhosts/nix/topic-permissions", code: 404},
		{who: "manager", do: "GET /api/vhosts/%2F/permissions", code: 403},
		{who: "manager", do: "GET /api/vhosts/%2F/topic-permissions", code: 403},

		{do: "POST /api/vhosts/a%2Fb/deletion/protection", code: 204},
		{do: "GET /api/vhosts/a%2Fb", code: 200, want: has(`"protected_from_deletion":true`, `"description":"d"`)},
		{do: "DELETE /api/vhosts/a%2Fb", code: 400, want: has("protected")},
		{who: "manager", do: "DELETE /api/vhosts/a%2Fb/deletion/protection", code: 403},
		{do: "DELETE /api/vhosts/a%2Fb/deletion/protection", code: 204},
		{do: "POST /api/vhosts/nix/deletion/protection", code: 404},
		{do: "DELETE /api/vhosts/nix/deletion/protection", code: 404},
		{do: "DELETE /api/vhosts/a%2Fb", code: 204},
		{do: "DELETE /api/vhosts/a%2Fb", code: 404},
	}
}

func limitRows() []row {
	return []row{
		{do: "PUT /api/vhosts/limited", code: 201},
		{do: "PUT /api/vhost-limits/limited/max-queues", body: `{"value":1}`, code: 204},
		{do: "PUT /api/vhost-limits/limited/max-connections", body: `{"value":"7"}`, code: 204},
		{do: "GET /api/vhost-limits", code: 200, want: has(`[{"value":{"max-connections":7,"max-queues":1},"vhost":"limited"}]`)},
		{do: "GET /api/vhost-limits/limited", code: 200, want: has(`[{"value":{"max-connections":7,"max-queues":1},"vhost":"limited"}]`)},
		{do: "GET /api/vhost-limits/%2F", code: 200, want: has(`[]`)},
		{do: "PUT /api/queues/limited/one", code: 201},
		{do: "PUT /api/queues/limited/two", code: 400, want: has("max-queues")},
		{do: "GET /v1/vhosts/limited/usage", code: 200, want: has(`{"limit":1,"name":"max-queues","used":1}`, `{"limit":null,"name":"max-byte-rate","used":null}`)},
		{do: "GET /v1/vhosts/nix/usage", code: 404},
		{do: "GET /api/vhosts/limited", code: 200, want: has(`"queues":1`)},
		{do: "DELETE /api/vhost-limits/limited/max-queues", code: 204},
		{do: "PUT /api/vhost-limits/limited/max-connections", body: `{"value":-1}`, code: 204},
		{do: "GET /api/vhost-limits/limited", code: 200, want: has(`[]`)},
		{do: "PUT /api/queues/limited/two", code: 201},
		{do: "GET /api/vhost-limits/nix", code: 404},
		{do: "PUT /api/vhost-limits/nix/max-queues", body: `{"value":1}`, code: 404},
		{do: "DELETE /api/vhost-limits/nix/max-queues", code: 404},
		{do: "PUT /api/vhost-limits/limited/nix", body: `{"value":1}`, code: 400, want: has("limit = nix", "max-connections, max-queues")},
		{do: "DELETE /api/vhost-limits/limited/nix", code: 400},
		{do: "PUT /api/vhost-limits/limited/max-queues", body: `{"value":-2}`, code: 400},
		{do: "PUT /api/vhost-limits/limited/max-queues", body: `{"value":"x"}`, code: 400, want: has("want an integer")},
		{do: "PUT /api/vhost-limits/limited/max-queues", body: `{}`, code: 400, want: has("value: is missing")},
		{who: "manager", do: "GET /api/vhost-limits", code: 200, want: has(`[]`)},
		{who: "manager", do: "GET /api/vhost-limits/limited", code: 404},
		{who: "manager", do: "PUT /api/vhost-limits/%2F/max-queues", body: `{"value":1}`, code: 403},
		{who: "manager", do: "DELETE /api/vhost-limits/%2F/max-queues", code: 403},
		{do: "DELETE /api/vhosts/limited", code: 204},

		{do: "PUT /api/user-limits/worker/max-channels", body: `{"value":3}`, code: 204},
		{do: "PUT /api/user-limits/worker/max-connections", body: `{"value":4}`, code: 204},
		{do: "GET /api/user-limits", code: 200, want: has(`[{"user":"worker","value":{"max-channels":3,"max-connections":4}}]`)},
		{do: "GET /api/user-limits/worker", code: 200, want: has(`"max-channels":3`)},
		{do: "GET /api/user-limits/guest", code: 200, want: has(`[]`)},
		{do: "DELETE /api/user-limits/worker/max-channels", code: 204},
		{do: "DELETE /api/user-limits/worker/max-connections", code: 204},
		{do: "GET /api/user-limits", code: 200, want: has(`[]`)},
		{do: "GET /api/user-limits/nix", code: 404},
		{do: "PUT /api/user-limits/nix/max-channels", body: `{"value":3}`, code: 404},
		{do: "DELETE /api/user-limits/nix/max-channels", code: 404},
		{do: "PUT /api/user-limits/worker/nix", body: `{"value":1}`, code: 400, want: has("max-connections, max-channels")},
		{do: "PUT /api/user-limits/worker/max-channels", body: `{"value":null}`, code: 400},
		{who: "manager", do: "GET /api/user-limits", code: 403},
		{who: "manager", do: "GET /api/user-limits/manager", code: 200, want: has(`[]`)},
		{who: "manager", do: "GET /api/user-limits/guest", code: 403},
		{who: "manager", do: "PUT /api/user-limits/manager/max-channels", body: `{"value":1}`, code: 403},
		{who: "manager", do: "DELETE /api/user-limits/manager/max-channels", code: 403},
	}
}

// A vhost has what its queues add up to on all nodes; one without queues has zeros.
func TestVHostFigures(t *testing.T) {
	a := start(t, 3)
	a.run([]row{{do: "PUT /api/vhosts/empty", code: http.StatusCreated}})
	for i, name := range []string{"a", "b", "c", "d"} {
		a.queue(name, i)
	}
	type vhost struct {
		Name     string
		Messages *uint64
		Ready    *uint64                  `json:"messages_ready"`
		Unacked  *uint64                  `json:"messages_unacknowledged"`
		Growth   *struct{ Rate *float64 } `json:"messages_details"`
		Stats    *struct {
			Publish uint64
			Rate    *struct{ Rate *float64 } `json:"publish_details"`
		} `json:"message_stats"`
	}
	check := func(h vhost, want uint64) error {
		switch {
		case h.Messages == nil || h.Ready == nil || h.Unacked == nil || h.Growth == nil || h.Growth.Rate == nil || h.Stats == nil ||
			h.Stats.Rate == nil || h.Stats.Rate.Rate == nil:
			t.Fatalf("something is missing: %+v", h)
		case *h.Messages != want || *h.Ready != want || *h.Unacked != 0 || h.Stats.Publish != want:
			return fmt.Errorf("%d messages, %d ready, %d published; want %d", *h.Messages, *h.Ready, h.Stats.Publish, want)
		}
		return nil
	}
	testcluster.Poll(t, "the vhost has the messages of all queues", func() error {
		var one vhost
		a.get("", "/api/vhosts/%2F", &one)
		return check(one, 6)
	})
	var all []vhost
	a.get("manager", "/api/vhosts", &all)
	if len(all) != 1 {
		t.Fatalf("%+v", all)
	}
	if err := check(all[0], 6); err != nil {
		t.Error(err)
	}
	var sorted, bare []vhost
	a.get("", "/api/vhosts?sort=messages_ready&sort_reverse=true", &sorted)
	if len(sorted) != 2 || sorted[0].Name != "/" || check(sorted[1], 0) != nil {
		t.Errorf("%+v", sorted)
	}
	a.get("", "/api/vhosts?disable_stats=true", &bare)
	if len(bare) != 2 || bare[0].Messages != nil || bare[0].Stats != nil {
		t.Errorf("%+v", bare)
	}
	a.cluster.Kill(0)
	testcluster.Poll(t, "the node that is away is named", func() error {
		if silent := a.get("", "/api/vhosts", &all).Get("Quorate-Silent"); !strings.Contains(silent, "node-0") {
			return fmt.Errorf("silent: %q", silent)
		}
		return nil
	})
}
