package rest_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/testcluster"
	"github.com/quorate/quorate/management/rest"
)

// Each path whose answer lacks what a node knows alone names the nodes that did not answer.
func TestSilentNodesAreNamed(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	t.Parallel()
	c := testcluster.Start(t, 3)
	a := on(t, rest.New(whole(c)), c, 0)
	a.furnish(c)
	var channels []struct{ Name string }
	testcluster.Poll(t, "both channels are shown", func() error {
		if a.get("", "/api/channels", &channels); len(channels) != 2 {
			return fmt.Errorf("%+v", channels)
		}
		return nil
	})
	c.Kill(2)
	for _, path := range []string{
		"/api/overview", "/api/nodes", "/api/nodes/node-0", "/api/nodes/node-0/memory", "/v1/cluster", "/api/feature-flags",
		"/api/connections", "/api/channels", "/api/channels/" + url.PathEscape(channels[0].Name), "/api/consumers", "/api/vhosts/%2F/connections",
		"/api/queues", "/api/queues/quorum/%2F/orders/status", "/api/vhosts", "/api/exchanges", "/v1/vhosts/%2F/usage", "/v1/users/guest/usage",
		"/api/health/checks/alarms", "/api/health/checks/node-is-quorum-critical",
	} {
		testcluster.Poll(t, path+" names the node that is away", func() error {
			code, header, text := a.ask("", "GET "+path, "")
			if silent := header.Get("Quorate-Silent"); !strings.Contains(silent, "node-2") || strings.Contains(silent, "node-0") {
				return fmt.Errorf("%d, silent %q, %.200s", code, silent, text)
			}
			return nil
		})
	}
}

// The check of alarms sees that another node's memory is short, and that of this node alone does not.
func TestAlarmOfAnotherNode(t *testing.T) {
	if testing.Short() {
		t.Skip("starts two nodes")
	}
	t.Parallel()
	c := testcluster.StartAs(t, 2, testcluster.Settings{MemoryHigh: func(node int) int64 { return int64(node) }}) // 1 byte on the second
	a := on(t, rest.New(whole(c)), c, 0)
	a.run([]row{
		{do: "GET /api/health/checks/alarms", code: 503, want: has(`"resource":"memory"`, `"node":"node-1"`, `!"node":"node-0"`)},
		{do: "GET /api/health/checks/local-alarms", code: 200, want: has(`{"status":"ok"}`)},
		{do: "GET /api/nodes?name=node-1&columns=mem_alarm", code: 200, want: has(`[{"mem_alarm":true}]`)},
	})
}
