package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
)

// AU-3: the audit of all nodes, live too, for administrators alone; names are harmless to a terminal.
func TestAuditTail(t *testing.T) {
	if testing.Short() {
		t.Skip("starts two nodes: not in short mode")
	}
	c := testcluster.Start(t, 2)
	ctl := func(want int, line ...string) (out, errs string) {
		t.Helper()
		var o, e bytes.Buffer
		if got := run(t.Context(), append([]string{"-a", strings.Join(c.Addrs(), ",")}, line...), &o, &e); got != want {
			t.Fatalf("quoratectl %q: %d, want %d\n%s%s", line, got, want, &o, &e)
		}
		return o.String(), e.String()
	}
	cl, err := client.Dial(t.Context(), client.Config{Addresses: c.Addrs()[1:], FixedAddresses: true})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	const evil = "e\x1b[2Jvil"
	if _, err := cl.DeclareQueue(t.Context(), client.Queue{Name: evil}); err != nil {
		t.Fatal(err)
	}
	ctl(0, "user", "put", "watcher", "--new-password", "s3cret", "--tag", "monitoring")
	out, _ := ctl(0, "audit", "tail", "--operation", "queue.*")
	if !strings.Contains(out, `done     queue.declare      guest (grpc password 127.0.0.1:`) || !strings.Contains(out, `queue / e\x1b[2Jvil type=quorum`) ||
		strings.Count(out, "\n") != 1 || strings.Contains(out, "\x1b") {
		t.Errorf("%q", out)
	}
	out, _ = ctl(0, "audit", "tail", "--of", "guest", "-n", "1", "--operation", "user.*")
	if !strings.Contains(out, "(grpc password") || !strings.Contains(out, "quoratectl) user watcher tags=monitoring password=set") || strings.Contains(out, "s3cret") {
		t.Errorf("%q", out)
	}
	out, _ = ctl(0, "audit", "tail", "-o", "json", "--vhost", "/", "--operation", "queue.declare")
	var e struct {
		Name  string
		Audit struct{ User, Outcome string }
	}
	if err := json.Unmarshal([]byte(out), &e); err != nil || e.Name != evil || e.Audit.User != "guest" || e.Audit.Outcome != "done" {
		t.Errorf("%v: %q", err, out)
	}
	if _, errs := ctl(1, "audit", "tail", "--user", "watcher", "--password", "s3cret"); !strings.Contains(errs, "needs the tag administrator") {
		t.Errorf("%q", errs)
	}
	ctl(2, "audit", "tail", "more")
	followed(t, c, cl)
}

// followed checks that -f continues where the list ended, over all nodes.
func followed(t *testing.T, c *testcluster.Cluster, cl *client.Client) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var o, e shared
	done := make(chan int)
	go func() {
		done <- run(ctx, []string{"-a", c.Addrs()[0], "audit", "tail", "-f", "--operation", "*.declare"}, &o, &e)
	}()
	for i, name := range []string{"vil", "later", "latest"} {
		if i > 0 {
			if _, err := cl.DeclareQueue(t.Context(), client.Queue{Name: name}); err != nil {
				t.Fatal(err)
			}
		}
		testcluster.Poll(t, "the record of "+name, func() error {
			if !strings.Contains(o.String(), name+" type=quorum") {
				return context.DeadlineExceeded
			}
			return nil
		})
	}
	end()
	if code := <-done; code != 0 || strings.Count(o.String(), "\n") != 3 {
		t.Errorf("%d: %s%s", code, o.String(), e.String())
	}
}
