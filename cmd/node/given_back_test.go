package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/wait"
)

const (
	refusedLogins = 6  // each of which hashes a password
	hashedMiB     = 30 // a node has had more than this of its own at some time after them
	restsMiB      = 24 // and soon has less than this; at rest a node has some 10
)

// A node gives back what hashing passwords needed, 19 MiB each, when it is at rest again.
func TestMemoryIsGivenBack(t *testing.T) {
	t.Parallel()
	binary := build(t)
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
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
	most := 0
	for i := range refusedLogins {
		cl, err := client.Dial(ctx, client.Config{
			Addresses: []string{n.Client}, FixedAddresses: true, Username: "guest", Password: fmt.Sprint("wrong", i),
		})
		if err == nil {
			cl.Close()
			t.Fatal("a wrong password logs in")
		}
		most = max(most, ownMiB(t, n))
	}
	if most < hashedMiB {
		t.Fatalf("the node had at most %d MiB: the test shows nothing", most)
	}
	for own := most; own >= restsMiB; own = ownMiB(t, n) {
		if wait.For(ctx, 200*time.Millisecond) != nil {
			t.Fatalf("the node still has %d MiB of %d", own, most)
		}
	}
}

// ownMiB is what a node has in physical memory of its own, not of files.
func ownMiB(t *testing.T, n *chaos.Node) int {
	t.Helper()
	pid, running := n.Running()
	if !running {
		t.Fatalf("node %s is not running: see %s", n.ID, n.LogFile())
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "\nRssAnon:")
	fields := strings.Fields(rest)
	if len(fields) < 2 || fields[1] != "kB" {
		t.Fatalf("no RssAnon in kB: %s", status)
	}
	kib, err := strconv.Atoi(fields[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib >> 10
}
