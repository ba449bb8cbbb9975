package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
)

// VH-11: who can read a node's files gets in when nobody knows an administrator's password.
func TestHostToken(t *testing.T) {
	t.Parallel()
	binary := build(t)
	c, err := chaos.NewCluster(chaos.ClusterConfig{Binary: binary, Dir: t.TempDir(), Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	n := c.Nodes[0]
	dial := func(cfg client.Config) (*client.Client, error) {
		cfg.Addresses, cfg.FixedAddresses = []string{n.Client}, true
		cl, err := client.Dial(ctx, cfg)
		if err == nil {
			t.Cleanup(cl.Close)
		}
		return cl, err
	}
	guest, err := dial(client.Config{Username: "guest", Password: "guest"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := guest.ChangeUser(ctx, client.UserChange{Name: "guest", Password: "that nobody knows"}); err != nil {
		t.Fatal(err)
	}
	t.Run("drain knows no password either", func(t *testing.T) { drainsAlone(ctx, t, binary, n) })
	if err := n.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	first := hostToken(t, n)
	host, err := dial(client.Config{Token: first})
	if err != nil {
		t.Fatal(err)
	}
	who, err := host.WhoAmI(ctx)
	if err != nil || who.User != "host:"+n.ID || strings.Join(who.Tags, ",") != "administrator" {
		t.Errorf("%v, %v", who, err)
	}
	if _, err := host.DeclareQueue(ctx, client.Queue{Name: "q"}); client.ClassOf(err) != client.NotAllowed {
		t.Errorf("declare: %v", err)
	}
	if _, err := host.MintToken(ctx, time.Hour); client.ClassOf(err) != client.NotAllowed {
		t.Errorf("mint: %v", err)
	}
	if created, err := host.PutVHost(ctx, client.VHost{Name: "v"}); err != nil || !created {
		t.Errorf("vhost: %v", err)
	}
	if _, err := host.ChangeUser(ctx, client.UserChange{Name: "guest", Password: "known"}); err != nil {
		t.Fatal(err)
	}
	if _, err := dial(client.Config{Username: "guest", Password: "known"}); err != nil {
		t.Error(err)
	}
	if err := n.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	if err := n.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := dial(client.Config{Token: first}); client.ClassOf(err) != client.AccessRefused {
		t.Errorf("the token of an earlier life: %v", err)
	}
	if _, err := dial(client.Config{Token: hostToken(t, n)}); err != nil {
		t.Error(err)
	}
}

// drainsAlone drains the node by its own settings, undoes that, and starts it again. It has nobody to hand
// the catalog to, which the command says; it serves no client from then on all the same.
func drainsAlone(ctx context.Context, t *testing.T, binary string, n *chaos.Node) {
	out, err := exec.CommandContext(ctx, binary, "drain", "--config", filepath.Join(n.Dir, "node.yaml"), "--timeout", "30s").CombinedOutput()
	if ready := n.Ready(ctx); ready == nil || !strings.Contains(ready.Error(), "drained") {
		t.Errorf("%v, ready %v\n%s", err, ready, out)
	}
	out, err = exec.CommandContext(ctx, binary, "drain", "--undo", "--config", filepath.Join(n.Dir, "node.yaml"), "--timeout", "30s").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "undrained ") {
		t.Errorf("%v\n%s", err, out)
	}
	if err := n.WaitReady(ctx); err != nil {
		t.Error(err)
	}
	if err := n.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
}

// hostToken reads a node's token, which its owner alone may read.
func hostToken(t *testing.T, n *chaos.Node) string {
	t.Helper()
	name := filepath.Join(n.Dir, "data", "administrator.token")
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o600 {
		t.Errorf("%s has mode %v", name, info.Mode())
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}
