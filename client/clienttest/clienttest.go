// Package clienttest runs a Quorate cluster inside a test, for programs that use package client or
// an AMQP library. The nodes are real ones. They run in the test's process, on loopback, with their
// data in a directory of the test. One node starts in less than a second. The cluster behaves as in
// production, and failures can be tried out: nodes can be killed and restarted.
package clienttest

import (
	"testing"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/testcluster"
)

// Cluster is a cluster of a test. Its methods belong to the test's goroutine.
type Cluster struct {
	t     testing.TB
	nodes *testcluster.Cluster
}

// Start starts n nodes, waits until all are ready, and stops them when the test ends. A queue is
// replicated to three nodes, or to all if there are fewer. Users and passwords are those of a fresh
// cluster: guest and guest.
func Start(t testing.TB, nodes int) *Cluster {
	t.Helper()
	return &Cluster{t: t, nodes: testcluster.Start(t, nodes)}
}

// Addresses returns the nodes' addresses for package client, host:port, in the order of the nodes
// from 0.
func (c *Cluster) Addresses() []string { return c.nodes.Addrs() }

// AMQP returns the URL of a node for AMQP libraries, as amqp://guest:guest@host:port/.
func (c *Cluster) AMQP(node int) string { return "amqp://guest:guest@" + c.nodes.AMQP(node) + "/" }

// Client returns a new client of all nodes, which is closed when the test ends.
func (c *Cluster) Client() *client.Client {
	c.t.Helper()
	cl, err := client.Dial(c.t.Context(), client.Config{Addresses: c.Addresses()})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(cl.Close)
	return cl
}

// Kill ends a node as a crash does: only what it had stored survives.
func (c *Cluster) Kill(node int) {
	c.t.Helper()
	c.nodes.Kill(node)
}

// Restart restarts a killed node with what it had stored, and waits until it is ready.
func (c *Cluster) Restart(node int) {
	c.t.Helper()
	c.nodes.Restart(node)
	c.nodes.AwaitReady(node)
}
