package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/loopback"
)

// ClusterConfig is what to run. Zero values are the defaults.
type ClusterConfig struct {
	Binary string   // the node's program; required
	Dir    string   // holds a directory for each node; required
	Nodes  int      // 0: 3
	Spare  int      // nodes besides, which the cluster does not expect: they join it when they are started
	Name   string   // "": chaos
	IDs    []string // of the nodes and the spare ones; nil: n1, n2 and so on
	// FirstClientPort and FirstAMQPPort, if set, are tried for the first node's clients, the next
	// ones 100 higher each, before free ports are looked for.
	FirstClientPort, FirstAMQPPort int
	// FirstManagementPort is the same for the web page and the HTTP API, which nodes serve if it is set or with Managed.
	FirstManagementPort int
	Managed             bool
	// Settings are lines that every node.yaml gets besides names and addresses.
	Settings string
	// Apart gives each node an address of loopback of its own, at which the others find it. There the
	// caller listens for peers and gossip (Node.PeerAt, Node.GossipAt), and passes on what comes to
	// Node.Peer and Node.Gossip. On Linux, where all of 127.0.0.0/8 is this machine.
	Apart bool
	// OnThread, if set, is called with a node's id on the thread that starts its process, which inherits
	// what that changes of the thread. The thread ends with the process.
	OnThread func(node string) error
	// Hosts, if there are any, are where nodes run, one each, spare ones too; else all run on loopback.
	Hosts []Host
}

// Host is a place with an address of its own, such as a network namespace.
type Host struct {
	Address string
	Enter   []string // a command that becomes the one behind it, there; empty: none is needed
}

// Ports of nodes that have a Host for themselves: clients, peers, gossip, HTTP, AMQP.
const firstHostPort = 7070

// Validate returns all faults at once.
func (c ClusterConfig) Validate() error {
	var errs []error
	if c.Binary == "" {
		errs = append(errs, errors.New("chaos: Binary is empty: name the program of nodes, for example bin/quorate"))
	} else if _, err := os.Stat(c.Binary); err != nil {
		errs = append(errs, fmt.Errorf("chaos: Binary: %w: build it with `make build`", err))
	}
	if c.Dir == "" {
		errs = append(errs, errors.New("chaos: Dir is empty: name a directory for the nodes"))
	}
	if c.Nodes < 0 || c.Nodes > 7 {
		errs = append(errs, fmt.Errorf("chaos: Nodes is %d: use 1 to 7", c.Nodes))
	}
	if c.Spare < 0 || c.Spare > 1 {
		errs = append(errs, fmt.Errorf("chaos: Spare is %d: use 0 or 1", c.Spare))
	}
	if len(c.Hosts) > 0 && len(c.Hosts) != c.all() {
		errs = append(errs, fmt.Errorf("chaos: Hosts has %d places for %d nodes: name one for each", len(c.Hosts), c.all()))
	}
	if len(c.IDs) > 0 && len(c.IDs) != c.all() {
		errs = append(errs, fmt.Errorf("chaos: IDs has %d names for %d nodes: name each", len(c.IDs), c.all()))
	}
	return errors.Join(errs...)
}

func (c ClusterConfig) nodes() int {
	if c.Nodes == 0 {
		return 3
	}
	return c.Nodes
}

// all returns the number of nodes and spare ones.
func (c ClusterConfig) all() int { return c.nodes() + c.Spare }

// Cluster is a set of node processes on loopback.
type Cluster struct {
	Nodes []*Node
	Spare []*Node // that the cluster does not know before they are started
}

// All returns the nodes and the spare ones.
func (c *Cluster) All() []*Node { return slices.Concat(c.Nodes, c.Spare) }

// NewCluster writes the nodes' files and starts no process yet.
func NewCluster(c ClusterConfig) (*Cluster, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Name == "" {
		c.Name = "chaos"
	}
	binary, err := filepath.Abs(c.Binary)
	if err != nil {
		return nil, fmt.Errorf("chaos: %w", err)
	}
	out := &Cluster{}
	for i := range c.all() {
		n := &Node{ID: fmt.Sprintf("n%d", i+1), binary: binary, onThread: c.OnThread}
		if len(c.IDs) > 0 {
			n.ID = c.IDs[i]
		}
		n.Dir = filepath.Join(c.Dir, n.ID)
		if len(c.Hosts) > 0 {
			n.enter = c.Hosts[i].Enter
			for p, address := range []*string{&n.Client, &n.Peer, &n.Gossip, &n.HTTP, &n.AMQP} {
				*address = net.JoinHostPort(c.Hosts[i].Address, strconv.Itoa(firstHostPort+p))
			}
			out.Nodes = append(out.Nodes, n)
			continue
		}
		preferred := map[*string]int{&n.Client: c.FirstClientPort, &n.AMQP: c.FirstAMQPPort, &n.Management: c.FirstManagementPort}
		addresses := []*string{&n.Client, &n.AMQP, &n.Peer, &n.Gossip, &n.HTTP}
		if c.Managed || c.FirstManagementPort != 0 {
			addresses = append(addresses, &n.Management)
		}
		for _, address := range addresses {
			port := preferred[address]
			if port != 0 {
				port += 100 * i
			}
			if *address, err = clusterAddress(port); err != nil {
				return nil, err
			}
		}
		if c.Apart {
			n.apart(i)
		}
		out.Nodes = append(out.Nodes, n)
	}
	out.Nodes, out.Spare = out.Nodes[:c.nodes():c.nodes()], out.Nodes[c.nodes():]
	join := make([]string, 0, len(out.Nodes))
	for _, n := range out.Nodes {
		join = append(join, cmp.Or(n.GossipAt, n.Gossip))
	}
	for _, n := range out.All() {
		if err := n.writeConfig(c, join); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// apart gives the node at index i a host of its own.
func (n *Node) apart(i int) {
	n.host = fmt.Sprintf("127.77.0.%d", i+1)
	move := func(address string) string {
		_, port, _ := net.SplitHostPort(address) // clusterAddress made it
		return net.JoinHostPort(n.host, port)
	}
	n.Client, n.AMQP, n.HTTP = move(n.Client), move(n.AMQP), move(n.HTTP)
	n.PeerAt, n.GossipAt = move(n.Peer), move(n.Gossip)
}

func (n *Node) writeConfig(c ClusterConfig, join []string) error {
	if err := os.MkdirAll(n.Dir, 0o750); err != nil {
		return fmt.Errorf("chaos: %w", err)
	}
	text := fmt.Sprintf("node_id: %s\ndata_dir: %s\ncluster:\n  name: %s\n  expect: %d\n  join: [%s]\n"+
		"listen:\n  client: %s\n  amqp: %s\n  amqps: \"off\"\n  peer: %s\n  gossip: %s\n  http: %s\n  management: %q\nadvertise:\n  host: %q\n"+
		"auth:\n  loopback_users: []\n%s",
		n.ID, filepath.Join(n.Dir, "data"), c.Name, len(join), strings.Join(join, ", "),
		n.Client, n.AMQP, n.Peer, n.Gossip, n.HTTP, n.Management, n.host, c.Settings)
	if err := os.WriteFile(filepath.Join(n.Dir, "node.yaml"), []byte(text), 0o640); err != nil {
		return fmt.Errorf("chaos: %w", err)
	}
	return nil
}

// clusterAddress returns the preferred port of loopback, if it is not 0 and free, else any.
func clusterAddress(preferred int) (string, error) {
	if preferred != 0 {
		if address := fmt.Sprintf("127.0.0.1:%d", preferred); loopback.Free(address) {
			return address, nil
		}
	}
	address, err := loopback.Address()
	if err != nil {
		return "", fmt.Errorf("chaos: %w", err)
	}
	return address, nil
}

// Addresses returns the clients' addresses of all nodes, or of all but one.
func (c *Cluster) Addresses(except ...*Node) []string {
	var out []string
	for _, n := range c.Nodes {
		if len(except) == 0 || n != except[0] {
			out = append(out, n.Client)
		}
	}
	return out
}

// Node returns the node with this id, or nil.
func (c *Cluster) Node(id string) *Node {
	for _, n := range c.All() {
		if n.ID == id {
			return n
		}
	}
	return nil
}

// Start starts every node that does not run and waits until all are ready or ctx ends.
func (c *Cluster) Start(ctx context.Context) error {
	for _, n := range c.Nodes {
		if _, running := n.Running(); !running {
			if err := n.Start(); err != nil {
				return err
			}
		}
	}
	return c.WaitReady(ctx)
}

// WaitReady waits until all nodes are ready; a node without a process is an error.
func (c *Cluster) WaitReady(ctx context.Context) error {
	for _, n := range c.Nodes {
		if err := n.WaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// WaitReady waits until the node is ready, its process ends, or ctx does.
func (n *Node) WaitReady(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := n.Ready(ctx)
		if err == nil {
			return nil
		}
		if _, running := n.Running(); !running {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w; last: %w (log: %s)", ctx.Err(), err, n.LogFile())
		}
	}
}

// Stop drains and stops all nodes that run, side by side; what does not end with ctx is
// killed. Nodes that are paused go on first.
func (c *Cluster) Stop(ctx context.Context) error {
	all := c.All()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, n := range all {
		if _, running := n.Running(); running {
			wg.Go(func() { errs[i] = errors.Join(n.Resume(), n.Stop(ctx)) })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Kill ends all processes at once.
func (c *Cluster) Kill() {
	for _, n := range c.All() {
		if _, running := n.Running(); running {
			_ = n.Kill() // it ended by itself meanwhile
		}
	}
}
