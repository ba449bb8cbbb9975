package netns

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/chaos/target/local"
)

const (
	defaultNodes     = 3
	defaultDiskBytes = 1 << 30
	pollEvery        = 20 * time.Millisecond
	namespaces       = "/run/netns"
	harness          = "harness" // the port of this process
)

// Cluster drives nodes in namespaces. All methods may be called concurrently, for different
// nodes.
type Cluster struct {
	*local.Cluster

	wire      *wire
	groups    map[string]string // directories of control groups by node
	noLimits  error             // why there are none
	memory    map[string]string // the same for memory
	noMemory  error
	addresses map[string]string

	mu    sync.Mutex // guards what disks are in
	disks map[string]*disk
}

var _ interface {
	target.Cluster
	target.Processes
	target.Pausing
	target.Files
	target.Stores
	target.Scaling
	target.Builds
	target.Network
	target.Shaping
	target.Packets
	target.Unplugging
	target.Disks
	target.Limits
	target.Memory
	target.Descriptors
	target.Calls
	target.Clocks
	target.Partial
} = (*Cluster)(nil)

// Open makes networks and disks, and starts no process yet: Cluster.Cluster.Cluster.Start does.
// It must run inside the namespaces of Again; Close takes everything back.
func Open(ctx context.Context, o Options) (*Cluster, error) {
	if !Inside() {
		return nil, errors.New("netns: clusters are opened in a process that Again has started")
	}
	if o.Nodes == 0 {
		o.Nodes = defaultNodes
	}
	if o.DiskBytes == 0 {
		o.DiskBytes = defaultDiskBytes
	}
	c := &Cluster{wire: newWire(), groups: map[string]string{}, memory: map[string]string{}, disks: map[string]*disk{}, addresses: map[string]string{}}
	if err := c.build(ctx, o); err != nil {
		return nil, errors.Join(err, c.Close(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// build makes all that Close takes back. What is there when it fails is in c.
func (c *Cluster) build(ctx context.Context, o Options) error {
	for _, line := range [][]string{
		{"mkdir", "-p", namespaces},
		{"mount", "-t", "tmpfs", "tmpfs", namespaces}, // names that nobody else sees
		{"ip", "link", "set", "lo", "up"},
	} {
		if err := command(ctx, line[0], line[1:]...); err != nil {
			return err
		}
	}
	if err := c.plug(ctx, harness, 1, ""); err != nil {
		return err
	}
	config := chaos.ClusterConfig{Binary: o.Binary, Dir: o.Dir, Nodes: o.Nodes, Settings: o.Settings}
	for i := range o.Nodes + local.Spares {
		host, err := c.host(ctx, o, i)
		if err != nil {
			return err
		}
		config.Hosts = append(config.Hosts, host)
	}
	made, err := local.Make(config, o.OtherBinary)
	if err == nil {
		c.Cluster = made
	}
	return err
}

// host makes the place of the node at index i: its namespace, device, disk and control group.
func (c *Cluster) host(ctx context.Context, o Options, i int) (chaos.Host, error) {
	name := fmt.Sprintf("n%d", i+1)
	if err := command(ctx, "ip", "netns", "add", name); err != nil {
		return chaos.Host{}, err
	}
	if err := c.plug(ctx, name, byte(11+i), name); err != nil {
		return chaos.Host{}, err
	}
	d, err := makeDisk(ctx, filepath.Join(o.Dir, name+".img"), filepath.Join(o.Dir, name, "data"), o.DiskBytes)
	if err != nil {
		return chaos.Host{}, err
	}
	c.disks[name] = d
	// Only the network is another one: a copy of the mounts would hold a disk that lost its power.
	enter := []string{"nsenter", "--net=" + namespaces + "/" + name, "env", "QUORATE_CLUSTER__ADMISSION=open"}
	within := func(group string) {
		enter = append([]string{"sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(group, "cgroup.procs")}, enter...)
	}
	if group, err := cpuGroup(name); err == nil {
		c.groups[name] = group
		within(group)
	} else {
		c.noLimits = err
	}
	if group, err := memoryGroup(name); err == nil {
		c.memory[name] = group
		within(group)
	} else {
		c.noMemory = err
	}
	return chaos.Host{Address: c.addresses[name], Enter: enter}, nil
}

// plug makes a device of this name in a network namespace, "" for this process's own, and
// connects it with the switch.
func (c *Cluster) plug(ctx context.Context, name string, last byte, namespace string) error {
	device, err := openTun(name)
	if err != nil {
		return err
	}
	ip := [4]byte{10, 79, 0, last}
	c.addresses[name] = fmt.Sprintf("%d.%d.%d.%d", ip[0], ip[1], ip[2], ip[3])
	c.wire.plug(name, ip, device)
	in := ""
	if namespace != "" {
		in = "-n " + namespace + " "
		if err := command(ctx, "ip", "link", "set", name, "netns", namespace); err != nil {
			return err
		}
		if err := command(ctx, "ip", "-n", namespace, "link", "set", "lo", "up"); err != nil {
			return err
		}
	}
	for _, args := range []string{
		"addr add " + c.addresses[name] + "/24 dev " + name,
		fmt.Sprintf("link set %s mtu %d txqueuelen 5000 up", name, mtu),
	} {
		if err := command(ctx, "ip", strings.Fields(in+args)...); err != nil {
			return err
		}
	}
	return nil
}

// Cut implements target.Network.
func (c *Cluster) Cut(_ context.Context, from, to string) error {
	c.wire.cut(from, to, 1)
	return nil
}

// Join implements target.Network.
func (c *Cluster) Join(_ context.Context, from, to string) error {
	c.wire.cut(from, to, -1)
	return nil
}

// Shape implements target.Shaping.
func (c *Cluster) Shape(_ context.Context, from, to string, s target.Shape) error {
	c.wire.shape(from, to, s)
	return nil
}

// LosePackets implements target.Packets.
func (c *Cluster) LosePackets(_ context.Context, from, to string, share float64) error {
	c.wire.lose(from, to, share)
	return nil
}

// Unplug implements target.Unplugging.
func (c *Cluster) Unplug(_ context.Context, node string) error {
	c.plugged(node, 1)
	return nil
}

// Plug implements target.Unplugging.
func (c *Cluster) Plug(_ context.Context, node string) error {
	c.plugged(node, -1)
	return nil
}

// plugged cuts or joins all links of a node, those to this process too.
func (c *Cluster) plugged(node string, by int) {
	for other := range c.addresses {
		if other != node {
			c.wire.cut(node, other, by)
			c.wire.cut(other, node, by)
		}
	}
}

// Touched implements target.Network: it counts packets.
func (c *Cluster) Touched(context.Context) (uint64, error) { return c.wire.touched.Load(), nil }

// Lacks implements target.Partial.
func (c *Cluster) Lacks(ability any) error {
	switch ability.(type) {
	case *target.Network, *target.Shaping:
		return nil // the switch has them, whatever processes on loopback lack
	case *target.Limits:
		return c.noLimits
	case *target.Memory:
		return c.noMemory
	case *target.Clocks:
		return noClocks()
	default:
		return c.Cluster.Lacks(ability)
	}
}

// Close implements target.Cluster: it takes back what was made, whatever state it is in.
func (c *Cluster) Close(ctx context.Context) error {
	var err error
	if c.Cluster != nil {
		for _, d := range c.disks { // a node cannot end while its disk is frozen
			_ = d.ioctl(fiThaw, 0)
		}
		err = c.Cluster.Close(ctx)
		c.Cluster.Cluster.Kill()
	}
	c.wire.close()
	for _, d := range c.disks {
		d.release(ctx)
	}
	for _, dir := range slices.Concat(slices.Collect(maps.Values(c.groups)), slices.Collect(maps.Values(c.memory))) {
		_ = os.Remove(dir) // it may outlive a process that still ends
	}
	_ = command(ctx, "umount", "--lazy", namespaces)
	return err
}
