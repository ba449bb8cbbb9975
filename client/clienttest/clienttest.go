// Package clienttest runs a Quorate cluster inside a test, for programs that use package client
// or an AMQP library: the nodes are real ones, in the test's process and on loopback, with their
// data in a directory of the test. One node starts in less than a second. What holds there holds
// in production, and what fails can be tried: a node is killed and comes back.
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

// Start starts so many nodes, waits until all serve, and stops them when the test ends. A
// queue is kept by three nodes, or by as many as there are. Users and passwords are those of a
// fresh cluster: guest and guest.
func Start(t testing.TB, nodes int) *Cluster {
	t.Helper()
	return &Cluster{t: t, nodes: testcluster.Start(t, nodes)}
}

// Addresses returns where the nodes serve package client, host:port, in the order of their
// numbers from 0.
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

// Kill ends a node as a crash does: what it had stored stays, nothing else.
func (c *Cluster) Kill(node int) {
	c.t.Helper()
	c.nodes.Kill(node)
}

// Restart starts a node that was killed with what it had stored, and waits until it serves.
func (c *Cluster) Restart(node int) {
	c.t.Helper()
	c.nodes.Restart(node)
	c.nodes.AwaitReady(node)
}
