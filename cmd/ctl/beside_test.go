package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/testcluster"
)

// Other nodes remove a node, also if the command has only that node's address. Where that is not possible, the refusal
// says what to do.
func TestRemoveNodeByItsAddress(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes: not in short mode")
	}
	c := testcluster.Start(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	ctl := func(node int, line string) (code int, out string) {
		var o, e shared
		code = run(ctx, append([]string{"-a", c.Addrs()[node]}, strings.Fields(line)...), &o, &e)
		return code, o.String() + e.String()
	}
	last := c.Name(2)
	want := func(node int, line string, code int, contains string) {
		t.Helper()
		if got, out := ctl(node, line); got != code || !strings.Contains(out, contains) {
			t.Fatalf("quoratectl %s, at %s: %d, want %d and %q\n%s", line, c.Name(node), got, code, contains, out)
		}
	}
	want(0, "queue declare three", 0, "three")
	want(2, "nodes drain "+last+" --remove --dry-run --fixed-addresses", exitRefused, "give only addresses of other nodes")
	want(2, "nodes drain "+last+" --remove --dry-run", 0, "nothing was done")
	want(1, "nodes drain "+last+" --remove --dry-run --fixed-addresses", 0, "nothing was done")
	want(2, "nodes drain "+last+" --remove --confirm "+last, 0, "")
	want(0, "nodes ls", 0, "refused") // it still runs
	c.Kill(2)
	c.Kill(1)
	code, out := ctl(0, "nodes drain "+c.Name(0)+" --remove --dry-run --timeout 10s") // the other one is down, or known to be
	if code != exitUnreachable && code != exitRefused || !strings.Contains(out, "cannot carry out its own removal, and ") {
		t.Errorf("without another node: %d\n%s", code, out)
	}
}
