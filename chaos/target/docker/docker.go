// Package docker drives nodes that are containers: it ends, pauses and starts them, and takes them
// off their networks. What lasts is also scheduled to end by a process of its own, in case this
// program is killed.
package docker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/chaos/target/remote"
)

// Options say how nodes are found.
type Options struct {
	Containers map[string]string // names of containers by the node's id; a node without one: its id
}

// Cluster drives containers. All methods may be called concurrently, for different nodes.
type Cluster struct {
	*remote.Cluster

	options Options
	mu      sync.Mutex
	healing map[string][]func() // cancels what heals a node's faults later
	cut     map[string]networks // of nodes that were taken off them
}

var _ interface {
	target.Cluster
	target.Processes
	target.Pausing
	target.Unplugging
} = (*Cluster)(nil)

// New drives the nodes of a cluster.
func New(c *remote.Cluster, o Options) *Cluster {
	return &Cluster{Cluster: c, options: o, healing: map[string][]func(){}, cut: map[string]networks{}}
}

// run runs docker.
func (c *Cluster) run(ctx context.Context, args ...string) (string, error) {
	out, err := remote.Run(ctx, "", "docker", args...)
	if err != nil {
		return "", fmt.Errorf("docker: %w", err)
	}
	return strings.TrimSpace(out), nil
}

// container is the name of the node's container.
func (c *Cluster) container(node string) string { return cmp.Or(c.options.Containers[node], node) }

// later schedules what heals a fault of the node.
func (c *Cluster) later(node string, args ...string) error {
	cancel, err := remote.Later(remote.DeadMan, "docker", args...)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.healing[node] = append(c.healing[node], cancel)
	return nil
}

// healed takes back what later has scheduled for the node.
func (c *Cluster) healed(node string) {
	c.mu.Lock()
	all := c.healing[node]
	delete(c.healing, node)
	c.mu.Unlock()
	for _, cancel := range all {
		cancel()
	}
}

// Kill implements target.Processes. Docker does not restart what it was ordered to kill.
func (c *Cluster) Kill(ctx context.Context, node string) error {
	if err := c.later(node, "start", c.container(node)); err != nil {
		return err
	}
	_, err := c.run(ctx, "kill", "--signal", "KILL", c.container(node))
	return err
}

// stopSeconds is how long docker lets a node drain.
const stopSeconds = "60"

// Stop implements target.Processes.
func (c *Cluster) Stop(ctx context.Context, node string) error {
	if err := c.later(node, "start", c.container(node)); err != nil {
		return err
	}
	_, err := c.run(ctx, "stop", "--time", stopSeconds, c.container(node))
	return err
}

// Start implements target.Processes.
func (c *Cluster) Start(ctx context.Context, node string) error {
	_, err := c.run(ctx, "start", c.container(node))
	c.healed(node)
	return err
}

// Running implements target.Processes.
func (c *Cluster) Running(node string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), remote.DeadMan)
	defer cancel()
	out, err := c.run(ctx, "inspect", "--format", "{{.State.Running}}", c.container(node))
	return err == nil && out == "true"
}

// Pause implements target.Pausing.
func (c *Cluster) Pause(ctx context.Context, node string) error {
	if err := c.later(node, "unpause", c.container(node)); err != nil {
		return err
	}
	_, err := c.run(ctx, "pause", c.container(node))
	return err
}

// Resume implements target.Pausing.
func (c *Cluster) Resume(ctx context.Context, node string) error {
	_, err := c.run(ctx, "unpause", c.container(node))
	c.healed(node)
	return err
}

// networks are what a container is connected to, as docker prints it.
type networks map[string]struct {
	Aliases    []string
	IPAMConfig struct{ IPv4Address, IPv6Address string }
}

// connect are the arguments that connect a container with one of them as it was.
func (n networks) connect(name, container string) []string {
	args := []string{"network", "connect"}
	for _, a := range n[name].Aliases {
		args = append(args, "--alias", a)
	}
	if ip := n[name].IPAMConfig.IPv4Address; ip != "" {
		args = append(args, "--ip", ip)
	}
	if ip := n[name].IPAMConfig.IPv6Address; ip != "" {
		args = append(args, "--ip6", ip)
	}
	return append(args, name, container)
}

// Unplug implements target.Unplugging.
func (c *Cluster) Unplug(ctx context.Context, node string) error {
	out, err := c.run(ctx, "inspect", "--format", "{{json .NetworkSettings.Networks}}", c.container(node))
	if err != nil {
		return err
	}
	var all networks
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		return fmt.Errorf("docker: networks of container %s: %w", c.container(node), err)
	}
	if len(all) == 0 {
		return fmt.Errorf("docker: container %s is on no network", c.container(node))
	}
	c.mu.Lock()
	c.cut[node] = all
	c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		err := c.later(node, all.connect(name, c.container(node))...)
		if err == nil {
			_, err = c.run(ctx, "network", "disconnect", name, c.container(node))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Plug implements target.Unplugging.
func (c *Cluster) Plug(ctx context.Context, node string) error {
	c.mu.Lock()
	all := c.cut[node]
	delete(c.cut, node)
	c.mu.Unlock()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(all)) {
		_, err := c.run(ctx, all.connect(name, c.container(node))...)
		errs = append(errs, err)
	}
	c.healed(node)
	return errors.Join(errs...)
}
