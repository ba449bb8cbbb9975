package rest_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/management/rest"
)

// What shows one thing takes columns, too, and figures can be left out of everything that has them.
func TestOneObject(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	t.Parallel()
	c := testcluster.Start(t, 3)
	a := on(t, rest.New(whole(c)), c, 0)
	a.furnish(c)
	var channels []struct {
		Name string
		Of   struct{ Name string } `json:"connection_details"`
	}
	testcluster.Poll(t, "both channels are shown", func() error {
		if a.get("", "/api/channels", &channels); len(channels) != 2 {
			return fmt.Errorf("%+v", channels)
		}
		return nil
	})
	channel, connection := url.PathEscape(channels[0].Name), url.PathEscape(channels[0].Of.Name)
	queue := "GET /api/queues/%2F/orders"
	a.run([]row{
		{do: queue + "?columns=name,message_stats.publish", code: 200, want: has(`{"message_stats":{"publish":1},"name":"orders"}`)},
		{do: queue + "?columns=nix", code: 200, want: has(`{}`)},
		{do: queue + "?disable_stats", code: 200, want: has(`"name":"orders"`, `!"messages"`, `!message_stats`)},
		{do: "GET /api/queues/%2F/nix?columns=name", code: 404, want: has("Object Not Found")},
		{do: "GET /api/exchanges/%2F/shop?columns=type", code: 200, want: has(`{"type":"topic"}`)},
		{do: "GET /api/exchanges/%2F/shop?disable_stats=true", code: 200, want: has(`"shop"`, `!message_stats`)},
		{do: "GET /api/vhosts/%2F?columns=name", code: 200, want: has(`{"name":"/"}`)},
		{do: "GET /api/vhosts/%2F?disable_stats=true", code: 200, want: has(`"queues":2`, `!message_stats`, `!messages`)},
		{do: "GET /api/overview?columns=node,object_totals.queues", code: 200, want: has(`{"node":"node-0","object_totals":{"queues":2}}`)},
		{do: "GET /api/overview?disable_stats=true", code: 200, want: has(`"queues":2`, `!queue_totals`, `!message_stats`, `!churn_rates`)},
		{do: "GET /api/nodes/node-1?columns=name", code: 200, want: has(`{"name":"node-1"}`)},
		{do: "GET /api/nodes/node-1", code: 200, want: has(`"mem_used_details":{"rate":`, `"fd_used_details":{"rate":`, `"disk_free_details":{"rate":`)},
		{do: "GET /api/nodes/node-1?disable_stats=true", code: 200, want: has(`"running":true`, `"mem_alarm":false`, `!mem_used`, `!fd_used`, `!uptime`)},
		{do: "GET /api/nodes?disable_stats=true", code: 200, want: has(`"running":true`, `!mem_used`)},
		{do: "GET /api/connections/" + connection + "?columns=user", code: 200, want: has(`{"user":"guest"}`)},
		{do: "GET /api/connections/" + connection, code: 200, want: has(`"recv_oct_details":{"rate":`, `"send_oct_details":{"rate":`)},
		{do: "GET /api/connections/" + connection + "?disable_stats=true", code: 200, want: has(`"guest"`, `!recv_oct`)},
		{do: "GET /api/connections?disable_stats=true", code: 200, want: has(`"guest"`, `!recv_oct`)},
		{do: "GET /api/channels/" + channel + "?columns=number", code: 200, want: has(`{"number":1}`)},
		{do: "GET /api/channels/" + channel + "?disable_stats=true", code: 200, want: has(`"guest"`, `!messages_unacknowledged`, `!consumer_details`)},
		{do: "GET /api/vhosts/%2F/channels?disable_stats=true", code: 200, want: has(`"guest"`, `!messages_unacknowledged`)},
		{do: "GET /api/consumers?disable_stats=true", code: 200, want: has(`"amqp0"`, `!messages_unacknowledged`)},
		{do: "GET /api/users/guest?columns=name", code: 200, want: has(`{"name":"guest"}`)},
		{do: "GET /api/whoami?columns=name", code: 200, want: has(`{"name":"guest"}`)},
		{do: "GET /api/queues/%2F?page=1&columns=name", code: 200, want: has(`"page_count":1`, `"items":[{"name":"orders"}`)},
		{do: "GET /api/queues?lengths_age=x", code: 400, want: has("lengths_age")},
		{do: queue + "?msg_rates_age=-1", code: 400, want: has("msg_rates_age")},
		{do: "GET /api/users/guest/queues?columns=name", code: 200, want: has(`{"name":"orders"}`, `{"name":"short"}`)},
		{who: "manager", do: "GET /api/users/nix/queues", code: 200, want: has(`[]`)},
		{who: "stranger", do: "GET /api/users/guest/queues", code: 200, want: has(`[]`)},
		{who: "worker", do: "GET /api/users/guest/queues", code: 403},
	})
	testcluster.Poll(t, "samples are shown", func() error { // of figures that are collected every few seconds
		_, _, text := a.ask("", "GET /api/queues?name=orders&lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5", "")
		for _, want := range []string{`"messages_details":{"rate":0,"samples":[{"sample":1,"timestamp":`, `"publish_details":{"rate":0,"samples":[{"sample":1,"timestamp":`} {
			if !strings.Contains(text, want) {
				return fmt.Errorf("%s, want %s", text, want)
			}
		}
		return nil
	})
	for _, r := range rest.Routes() { // lists say themselves which columns their rows have
		if r.Method == http.MethodGet && slices.Contains(r.Query, "disable_stats") && !slices.Contains(r.Query, "columns") {
			t.Errorf("%s takes no columns", r.Path)
		}
	}
}
