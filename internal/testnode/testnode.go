// Package testnode starts a cluster of one real node, for tests of packages above cluster and below
// testcluster.
package testnode

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster"
)

// Bounds of waiting.
const (
	readyTimeout = 30 * time.Second
	closeTimeout = 30 * time.Second
	pollEvery    = 5 * time.Millisecond
)

// Start starts a node that can serve clients. It closes the node at the test's end.
func Start(t testing.TB) *cluster.Cluster {
	t.Helper()
	c := start(t, 1)
	for deadline := time.Now().Add(readyTimeout); c.Ready() != nil; time.Sleep(pollEvery) {
		if time.Now().After(deadline) {
			t.Fatal("the node is not ready: ", c.Ready())
		}
	}
	return c
}

// Waiting starts a node that serves no client, because it waits for another node to found the
// cluster with. It closes the node at the test's end.
func Waiting(t testing.TB) *cluster.Cluster {
	t.Helper()
	return start(t, 2)
}

// start starts the only node of a cluster and closes it at the test's end; expect is higher for a
// node that waits for others.
func start(t testing.TB, expect int) *cluster.Cluster {
	t.Helper()
	peers, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Start(t.Context(), cluster.Config{
		Name: "test", Node: "n", DataDir: t.TempDir(), Expect: expect, Version: "test",
		Peers: peers, PeerAddr: peers.Addr().String(), ClientAddr: "127.0.0.1:1", GossipAddr: "127.0.0.1:0",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return c
}
