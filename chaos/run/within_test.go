package run

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/quorate/quorate/chaos/target/netns"
)

// within returns a cluster whose processes run, in namespaces of its own; nil: the test has run there. It skips the test
// where there is no such cluster.
func within(ctx context.Context, t *testing.T, settings string) *netns.Cluster {
	t.Helper()
	binary, err := filepath.Abs(filepath.Join("..", "..", "bin", "quorate"))
	if err == nil {
		_, err = os.Stat(binary)
	}
	if err != nil || testing.Short() {
		t.Skipf("starts processes of bin/quorate, which `make build` makes; without -short (%v)", err)
	}
	if err := netns.Possible(); err != nil {
		t.Skip("NOT TESTED: ", err)
	}
	if !netns.Inside() {
		if err := netns.Again(ctx, "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1"); err != nil {
			t.Fatal(err)
		}
		return nil
	}
	c, err := netns.Open(ctx, netns.Options{Binary: binary, OtherBinary: binary, Dir: t.TempDir(), Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	if err := c.Cluster.Cluster.Start(ctx); err != nil {
		t.Fatal(err)
	}
	return c
}
