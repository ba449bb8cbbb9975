package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos"
)

// logged returns the last line of a node's log that has all the words, and how many there are.
func logged(t *testing.T, n *chaos.Node, words ...string) (last string, count int) {
	t.Helper()
	text, err := os.ReadFile(n.LogFile())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			last = line
			count++
		}
	}
	return last, count
}

// hangUp sends SIGHUP to a node and returns the line with all the words that its log has more then.
func hangUp(ctx context.Context, t *testing.T, n *chaos.Node, words ...string) string {
	t.Helper()
	_, before := logged(t, n, words...)
	pid, running := n.Running()
	if !running {
		t.Fatalf("node %s does not run", n.ID)
	}
	if err := syscall.Kill(pid, syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for {
		if line, now := logged(t, n, words...); now > before {
			return line
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("no line with %q", words)
		}
	}
}

// Asked by SIGHUP, and by itself when the file has changed, the node takes new certificates and the settings that it can, says
// what needs a restart, and stays as it was if anything is wrong.
func TestHangUp(t *testing.T) {
	t.Parallel()
	binary, certs, dir := build(t), t.TempDir(), t.TempDir()
	makeCerts(t, certs, "--node", "n1")
	c, err := chaos.NewCluster(chaos.ClusterConfig{Binary: binary, Dir: dir, Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	n := c.Nodes[0]
	name := filepath.Join(n.Dir, "node.yaml")
	base, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	base = fmt.Appendf(base, "tls:\n  client: {cert: %[1]s/tls.crt, key: %[1]s/tls.key}\n", filepath.Join(certs, "n1"))
	settings := func(more string) {
		t.Helper()
		if err := os.WriteFile(name+".new", []byte(string(base)+more), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil { // the node, which looks at the file by itself, never sees half of it
			t.Fatal(err)
		}
	}
	settings("")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	pid, _ := n.Running()
	limit := func(want string) {
		t.Helper()
		text, _, err := get(ctx, t, "http://"+n.HTTP+"/metrics")
		if err != nil || !strings.Contains(text, "\nquorate_incoming_limit_bytes "+want+"\n") {
			t.Errorf("%v: limits.incoming_bytes is not %s", err, want)
		}
	}

	hangUp(ctx, t, n, "settings were reloaded", `taken_over=none`)
	before := shownAt(ctx, t, n.Client)
	replace(t, certs, "n1")
	settings("limits:\n  incoming_bytes: 50000000\n  publish_window: 100\nlog:\n  level: debug\n")
	line := hangUp(ctx, t, n, "restart the node")
	if !strings.Contains(line, "settings=limits.publish_window") {
		t.Errorf("what needs a restart: %s", line)
	}
	line = hangUp(ctx, t, n, "settings were reloaded", "taken_over=none")
	if shownAt(ctx, t, n.Client).Equal(before) {
		t.Errorf("the old certificate is shown after %s", line)
	}
	limit("5e+07")
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", n.AMQP)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close() // which the node logs at level debug
	for count := 0; count == 0; _, count = logged(t, n, "level=DEBUG") {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("nothing is logged at level debug")
		}
	}
	text, err := os.ReadFile(n.LogFile())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`taken_over="log.level, limits.incoming_bytes"`, "new TLS files are in use"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the log lacks %s", want)
		}
	}

	settings("limits:\n  incoming_bytes: 60000000\nlog:\n  level: loud\n")
	line = hangUp(ctx, t, n, "cannot reload the settings")
	if !strings.Contains(line, "log.level") {
		t.Errorf("the error does not name the setting: %s", line)
	}
	key := filepath.Join(certs, "n1", "tls.key")
	if err := os.WriteFile(key, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	settings("limits:\n  incoming_bytes: 60000000\n")
	line = hangUp(ctx, t, n, "cannot reload the settings")
	if !strings.Contains(line, key) || strings.Contains(line, "no key") {
		t.Errorf("the error does not name the file: %s", line)
	}
	limit("5e+07")

	if err := os.RemoveAll(filepath.Dir(key)); err != nil {
		t.Fatal(err)
	}
	makeCerts(t, certs, "--node", "n1") // nobody sends a signal
	for {
		if _, count := logged(t, n, `taken_over="log.level, limits.incoming_bytes"`); count == 2 {
			break
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("the file is right, and not read again")
		}
	}
	limit("6e+07")
	if now, running := n.Running(); !running || now != pid {
		t.Errorf("the process ended: %d, %d, %t", pid, now, running)
	}
	t.Log(line)
}
