package rest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/quorate/quorate/internal/testcluster"
)

func exchangeRows() []row {
	return []row{
		{do: "PUT /api/exchanges/%2F/x", body: `{"type":"topic","durable":"true","arguments":{"alternate-exchange":"amq.fanout"}}`, code: 201},
		{do: "PUT /api/exchanges/%2F/x", body: `{"type":"topic","arguments":{"alternate-exchange":"amq.fanout"}}`, code: 204},
		{do: "GET /api/exchanges/%2F/x", code: 200, want: has(
			`{"arguments":{"alternate-exchange":"amq.fanout"},"auto_delete":false,"durable":true,"internal":false,"name":"x","type":"topic","vhost":"/"}`,
		)},
		{do: "PUT /api/exchanges/%2F/x", body: `{"type":"direct"}`, code: 400, want: has("type")},
		{do: "PUT /api/exchanges/%2F/plain", code: 201},
		{do: "GET /api/exchanges/%2F/plain", code: 200, want: has(`"type":"direct"`, `"arguments":{}`)},
		{do: "GET /api/exchanges", code: 200, want: has(`"name":""`, `"name":"amq.topic"`, `"name":"x"`)},
		{do: "GET /api/exchanges/%2F?name=pl&columns=name", code: 200, want: has(`[{"name":"plain"}]`)},
		{do: "GET /api/exchanges/%2F?page=1&page_size=2&sort=name", code: 200, want: has(`"item_count":2`, `"total_count":`)},
		{do: "GET /api/exchanges/%2F/amq.default", code: 200, want: has(`"name":""`, `"type":"direct"`)},
		{do: "PUT /api/exchanges/%2F/amq.default", body: `{"type":"direct"}`, code: 403},
		{do: "DELETE /api/exchanges/%2F/amq.default", code: 403},
		{do: "PUT /api/exchanges/%2F/amq.mine", body: `{"type":"direct"}`, code: 403},
		{do: "DELETE /api/exchanges/%2F/amq.topic", code: 403},
		{do: "PUT /api/exchanges/%2F/y", body: `{"type":"none"}`, code: 400},
		{do: "PUT /api/exchanges/%2F/y", body: `{"type":1,"durable":2,"auto_delete":3,"internal":4,"arguments":5}`, code: 400, want: has("type = 1", "durable = 2", "auto_delete = 3", "internal = 4", "arguments = 5")},
		{do: "PUT /api/exchanges/%2F/y", body: `{"type":"direct"} x`, code: 400, want: has("goes on after")},
		{do: "PUT /api/exchanges/%2F/y", body: `{"arguments":{"a":"` + strings.Repeat("x", 1<<20) + `"}}`, code: 400, want: has("has more than 1048576 bytes")},
		{do: "PUT /api/exchanges/nix/y", body: `{"type":"direct"}`, code: 404},
		{do: "GET /api/exchanges/nix", code: 404},
		{do: "GET /api/exchanges/%2F/nix", code: 404},
		{do: "DELETE /api/exchanges/%2F/nix", code: 404},
		{do: "PUT /api/exchanges/%2F/" + strings.Repeat("n", 255), code: 201},
		{do: "DELETE /api/exchanges/%2F/" + strings.Repeat("n", 255), code: 204},
		{do: "PUT /api/exchanges/%2F/" + strings.Repeat("n", 256), code: 400, want: has("256 bytes")},
		{do: "PUT /api/exchanges/%2F/a%2F%22%E2%82%AC%25+b", code: 201},
		{do: "GET /api/exchanges/%2F/a%2F%22%E2%82%AC%25+b", code: 200, want: has(`"name":"a/\"€%+b"`)},
		{do: "DELETE /api/exchanges/%2F/a%2F%22%E2%82%AC%25+b", code: 204},
		{who: "limited", do: "PUT /api/exchanges/%2F/mine", code: 201},
		{who: "limited", do: "PUT /api/exchanges/%2F/yours", code: 403},
		{who: "limited", do: "DELETE /api/exchanges/%2F/plain", code: 403},
		{who: "limited", do: "DELETE /api/exchanges/%2F/mine", code: 204},
		{who: "manager", do: "GET /api/exchanges?columns=vhost,name&name=plain", code: 200, want: has(`[{"name":"plain","vhost":"/"}]`)},
		{who: "stranger", do: "GET /api/exchanges", code: 200, want: has(`[]`)},
		{who: "stranger", do: "GET /api/exchanges/%2F", code: 403},
		{who: "stranger", do: "GET /api/exchanges/%2F/x", code: 403},
		{who: "stranger", do: "PUT /api/exchanges/%2F/x", code: 403},
		{who: "worker", do: "GET /api/exchanges", code: 403},
		{who: "worker", do: "PUT /api/exchanges/%2F/x", code: 403},
		{who: "nobody", do: "GET /api/exchanges", code: 401},

		{do: "PUT /api/queues/%2F/of-x", code: 201},
		{do: "POST /api/bindings/%2F/e/x/q/of-x", body: `{"routing_key":"k"}`, code: 201},
		{do: "POST /api/bindings/%2F/e/plain/e/x", body: `{"routing_key":"k"}`, code: 201},
		{do: "GET /api/exchanges/%2F/x/bindings/source?columns=destination", code: 200, want: has(`[{"destination":"of-x"}]`)},
		{do: "GET /api/exchanges/%2F/x/bindings/destination?columns=source", code: 200, want: has(`[{"source":"plain"}]`)},
		{do: "GET /api/exchanges/%2F/amq.default/bindings/source", code: 200, want: has(`"destination":"of-x"`, `"routing_key":"of-x"`)},
		{do: "GET /api/exchanges/%2F/nix/bindings/source", code: 404},
		{do: "GET /api/exchanges/%2F/nix/bindings/destination", code: 404},
		{who: "stranger", do: "GET /api/exchanges/%2F/x/bindings/source", code: 403},
		{do: "DELETE /api/exchanges/%2F/x?if-unused=true", code: 400},
		{do: "DELETE /api/exchanges/%2F/x?if-unused=false", code: 204},
		{do: "DELETE /api/exchanges/%2F/plain?if-unused=true", code: 204},
		{do: "DELETE /api/queues/%2F/of-x", code: 204},
	}
}

// Exchanges have what was published to them through all nodes, and how many queues it was routed to; one that was not used has
// nothing.
func TestExchangeCounts(t *testing.T) {
	a := start(t, 3)
	for _, name := range []string{"a", "b"} {
		a.run([]row{
			{do: "PUT /api/queues/%2F/" + name, code: http.StatusCreated},
			{do: "POST /api/bindings/%2F/e/amq.fanout/q/" + name, body: `{}`, code: http.StatusCreated},
		})
	}
	for i := range 3 {
		address := "amqp://guest:guest@" + a.cluster.AMQP(i) + "/"
		conn, err := amqp091.Dial(address)
		if err != nil {
			t.Fatal(err)
		}
		ch, err := conn.Channel()
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			for _, p := range [][2]string{{"amq.fanout", ""}, {"", "a"}, {"", "nix"}} {
				if err := ch.PublishWithContext(t.Context(), p[0], p[1], false, false, amqp091.Publishing{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := ch.QueueDeclarePassive("a", true, false, false, false, nil); err != nil { // what was sent before it is published
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	type exchange struct {
		Name  string
		Stats *struct {
			In      uint64                  `json:"publish_in"`
			Out     uint64                  `json:"publish_out"`
			InRate  *struct{ Rate float64 } `json:"publish_in_details"`
			OutRate *struct{ Rate float64 } `json:"publish_out_details"`
		} `json:"message_stats"`
	}
	want := map[string][2]uint64{"amq.fanout": {30, 60}, "": {60, 30}}
	testcluster.Poll(t, "the counts of all nodes are there", func() error {
		var all []exchange
		a.get("", "/api/exchanges", &all)
		for _, x := range all {
			n, used := want[x.Name]
			if (x.Stats != nil) != used || used && (x.Stats.In != n[0] || x.Stats.Out != n[1] || x.Stats.InRate == nil || x.Stats.OutRate == nil) {
				return fmt.Errorf("%q: %+v, want %v", x.Name, x.Stats, n)
			}
		}
		return nil
	})
	var one exchange
	a.get("", "/api/exchanges/%2F/amq.default", &one)
	if one.Stats == nil || one.Stats.In != 60 || one.Stats.Out != 30 {
		t.Errorf("%+v", one.Stats)
	}
	var sorted, bare []exchange
	a.get("manager", "/api/exchanges/%2F?sort=message_stats.publish_out&sort_reverse=true", &sorted)
	if len(sorted) < 7 || sorted[0].Name != "amq.fanout" || sorted[1].Name != "" {
		t.Errorf("%+v", sorted)
	}
	a.get("", "/api/exchanges?disable_stats=true", &bare)
	for _, x := range bare {
		if x.Stats != nil {
			t.Errorf("%+v", x)
		}
	}
	a.cluster.Kill(0)
	testcluster.Poll(t, "the node that is away is named", func() error {
		var all []exchange
		if silent := a.get("", "/api/exchanges", &all).Get("Quorate-Silent"); !strings.Contains(silent, "node-0") {
			return fmt.Errorf("silent: %q", silent)
		}
		return nil
	})
}
