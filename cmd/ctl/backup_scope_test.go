package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/testcluster"
)

// A context's vhost makes no part out of a backup or the definitions of the cluster, and leaves no queues out of those that a
// node joins or leaves; only --vhost does. What is covered is printed, and that the context's vhost does not count.
func TestScope(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a node: not in short mode")
	}
	c := testcluster.Start(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir := t.TempDir()
	t.Setenv(contextsEnv, filepath.Join(dir, "contexts.yaml"))
	t.Setenv(contextEnv, "")
	ctl := func(want int, contains, line string) {
		t.Helper()
		var o, e shared
		got := run(ctx, strings.Fields(strings.ReplaceAll(line, "DIR", dir)), &o, &e)
		all := blanks.ReplaceAllString(o.String()+e.String(), " ")
		if got != want || !strings.Contains(all, contains) {
			t.Errorf("quoratectl %s: %d, want %d and %q\n%s", line, got, want, contains, all)
		}
	}
	ctl(0, "", "context put prod -a "+c.Addrs()[0]+" --vhost orders")
	ctl(0, "true", "vhost put orders")
	ctl(0, "true", "queue declare new")
	ctl(0, "true", "queue declare main --vhost /")
	ctl(0, "all vhosts", "backup create DIR/whole")
	ctl(0, "/ main 0", "backup show DIR/whole")
	ctl(0, "orders new 0", "backup show DIR/whole")
	ctl(0, `vhost "orders" alone`, "backup create DIR/part --vhost orders")
	ctl(0, `vhost "orders" alone`, "backup create DIR/chosen --queue new")
	ctl(0, "/ main 0", "backup restore DIR/whole")
	ctl(0, "orders new 0", "backup restore DIR/whole --queue new")
	ctl(0, "all from", "operations ls --all")

	ctl(0, `"name": "main"`, "definitions export")
	ctl(0, `the context's vhost "orders" does not count`, "definitions export DIR/all.json")
	ctl(0, "", "definitions export DIR/orders.json --vhost orders")
	if all, part := size(t, dir+"/all.json"), size(t, dir+"/orders.json"); part >= all {
		t.Errorf("one vhost has %d bytes, all have %d", part, all)
	}
	for _, line := range []string{"shrink " + c.Name(0), "grow " + c.Name(0), "rebalance"} {
		ctl(0, `the context's vhost "orders" does not count here, only --vhost does`+"\nall queues in all vhosts", "queues "+line+" --dry-run")
		ctl(0, `queues "m*" in all vhosts`, "queues "+line+" --queues m* --dry-run")
		ctl(0, `all queues in vhost "orders"`, "queues "+line+" --dry-run --vhost orders")
	}
	ctl(0, `queue "main" in vhost "/": node`, "queues shrink "+c.Name(0)+" --dry-run")
	ctl(0, "1 changes would be made", "queues shrink "+c.Name(0)+" --dry-run --vhost orders")

	ctl(0, "", "queue delete main --vhost /")
	ctl(0, "0 created, ", "definitions import DIR/all.json --vhost orders")
	ctl(0, "1 created, ", "definitions import DIR/all.json")
	ctl(0, "main", "queue show main --vhost /")
	ctl(0, "", "queue delete main --vhost /")
	ctl(0, "1 created, ", "migrate rabbitmq DIR/all.json --apply")
}

// size returns how many bytes a file has.
func size(t *testing.T, name string) int64 {
	t.Helper()
	f, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return f.Size()
}
