package testcluster_test

import (
	"strings"
	"testing"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
)

// programs that RabbitMQ gave a classic queue for its arguments go on with the one that
// there is; what no queue heeds is no difference.
func testAskedForClassic(t *testing.T, c *testcluster.Cluster) {
	ctx := testContext(t)
	cl := openClient(t, c)
	for name, args := range map[string]client.Table{
		"priorities": {"x-queue-type": "classic", "x-max-priority": 10}, "lazy": {"x-queue-type": "classic"}, "quorum": nil,
	} {
		if _, err := cl.DeclareQueue(ctx, client.Queue{Name: "asked." + name, Arguments: args}); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range []struct {
		queue string
		args  client.Table
		want  string // "": it is the same
	}{
		{"priorities", client.Table{"x-max-priority": 10}, ""},
		{"priorities", client.Table{"x-max-priority": 10, "x-queue-mode": "lazy", "x-queue-version": 2}, ""},
		{"priorities", client.Table{"x-max-priority": 9}, "x-max-priority"},
		{"priorities", client.Table{"x-max-priority": 10, "x-queue-type": "quorum"}, "x-queue-type"},
		{"priorities", nil, "x-queue-type"},
		{"lazy", client.Table{"x-queue-mode": "lazy"}, ""},
		{"quorum", client.Table{"x-queue-mode": "lazy"}, "x-queue-mode"},
		{"quorum", client.Table{"x-max-priority": 10}, "x-max-priority"},
	} {
		_, err := cl.DeclareQueue(ctx, client.Queue{Name: "asked." + row.queue, Arguments: row.args})
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s with %v: %v, want %q", row.queue, row.args, err, row.want)
		}
	}
}
