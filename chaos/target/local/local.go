// Package local drives nodes that are processes of this machine on loopback: they can be
// ended, paused and started, their files changed, and another build run.
package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/client"
)

// Cluster drives the processes of a chaos.Cluster. All methods may be called concurrently, for
// different nodes.
type Cluster struct {
	*chaos.Cluster
	// Binary is the current build; OtherBinary, if set, the other one.
	Binary, OtherBinary string
}

var _ interface {
	target.Cluster
	target.Processes
	target.Pausing
	target.Files
	target.Builds
	target.Partial
} = (*Cluster)(nil)

// Lacks implements target.Partial.
func (c *Cluster) Lacks(ability any) error {
	if _, builds := ability.(*target.Builds); builds && c.OtherBinary == "" {
		return errors.New("local: there is no other build: name its program")
	}
	return nil
}

// Nodes implements target.Cluster.
func (c *Cluster) Nodes() []target.Node {
	out := make([]target.Node, 0, len(c.Cluster.Nodes))
	for _, n := range c.Cluster.Nodes {
		out = append(out, target.Node{ID: n.ID, Client: n.Client, AMQP: n.AMQP, HTTP: n.HTTP})
	}
	return out
}

// Dial implements target.Cluster.
func (c *Cluster) Dial(nodes ...string) client.Config {
	cfg := client.Config{FixedAddresses: len(nodes) > 0}
	for _, n := range c.Cluster.Nodes {
		if len(nodes) == 0 {
			cfg.Addresses = append(cfg.Addresses, n.Client)
		}
	}
	for _, id := range nodes {
		if n := c.Node(id); n != nil {
			cfg.Addresses = append(cfg.Addresses, n.Client)
		}
	}
	return cfg
}

// Login implements target.Cluster: nodes are run without logins.
func (*Cluster) Login() (user, password string) { return "guest", "guest" }

// WaitReady implements target.Cluster.
func (c *Cluster) WaitReady(ctx context.Context, node string) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	return n.WaitReady(ctx)
}

// Log implements target.Cluster: all that the node's processes wrote; lines carry their times.
func (c *Cluster) Log(_ context.Context, node string, _ time.Time) ([]byte, error) {
	n, err := c.node(node)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(n.LogFile())
}

// Close implements target.Cluster.
func (c *Cluster) Close(ctx context.Context) error { return c.Cluster.Stop(ctx) }

// Kill implements target.Processes.
func (c *Cluster) Kill(_ context.Context, node string) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	return n.Kill()
}

// Stop implements target.Processes.
func (c *Cluster) Stop(ctx context.Context, node string) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	return n.Stop(ctx)
}

// Start implements target.Processes.
func (c *Cluster) Start(_ context.Context, node string) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	return n.Start()
}

// Running implements target.Processes.
func (c *Cluster) Running(node string) bool {
	n := c.Node(node)
	if n == nil {
		return false
	}
	_, running := n.Running()
	return running
}

// Pause implements target.Pausing.
func (c *Cluster) Pause(_ context.Context, node string) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	return n.Pause()
}

// Resume implements target.Pausing.
func (c *Cluster) Resume(_ context.Context, node string) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	return n.Resume()
}

// Dir implements target.Files.
func (c *Cluster) Dir(node string) string {
	if n := c.Node(node); n != nil {
		return n.DataDir()
	}
	return ""
}

// Wipe implements target.Files.
func (c *Cluster) Wipe(_ context.Context, node string) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	if _, running := n.Running(); running {
		return fmt.Errorf("local: node %s runs: end it before its disk is wiped", node)
	}
	entries, err := os.ReadDir(n.DataDir())
	if err != nil {
		return fmt.Errorf("local: wipe node %s: %w", node, err)
	}
	for _, e := range entries { // not the directory: it may be a mount point
		if err := os.RemoveAll(n.DataDir() + string(os.PathSeparator) + e.Name()); err != nil {
			return fmt.Errorf("local: wipe node %s: %w", node, err)
		}
	}
	return nil
}

// Use implements target.Builds.
func (c *Cluster) Use(_ context.Context, node, build string) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	binary := c.Binary
	if build == target.Other {
		binary = c.OtherBinary
	}
	if binary == "" {
		return fmt.Errorf("local: there is no %s build: name its program", build)
	}
	n.Use(binary)
	return nil
}

func (c *Cluster) node(id string) (*chaos.Node, error) {
	n := c.Node(id)
	if n == nil {
		return nil, fmt.Errorf("local: there is no node %q", id)
	}
	return n, nil
}
