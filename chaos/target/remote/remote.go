// Package remote reaches clusters that are already there, and guards them: what is put into one is
// asked for by its name, and stays in a vhost of its own. Drivers that can do more to such nodes
// than clients can build on it.
package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/wait"
)

// Options say how nodes are reached. Zero values are the defaults.
type Options struct {
	Client client.Config // addresses, login and TLS
	// Ports on the nodes' hosts: of AMQP and of health and metrics; 0: they are not reached.
	AMQPPort, HTTPPort int
}

// Cluster is one that is already there. All methods may be called concurrently.
type Cluster struct {
	options Options
	// given are addresses at which the cluster was found, such as that of a service before all nodes.
	given []string

	mu    sync.Mutex
	nodes []target.Node
}

var _ target.Cluster = (*Cluster)(nil)

// pollEvery is how often a condition is checked.
const pollEvery = 100 * time.Millisecond

// askTimeout bounds one question to one node, which may be hit.
const askTimeout = 2 * time.Second

// Open asks the cluster which nodes it has. Nothing is changed.
func Open(ctx context.Context, o Options) (*Cluster, error) {
	c, err := client.Dial(ctx, o.Client)
	if err != nil {
		return nil, fmt.Errorf("remote: no node answers at %v: %w", o.Client.Addresses, err)
	}
	defer c.Close()
	st, err := c.ClusterDetails(ctx)
	if err != nil {
		return nil, fmt.Errorf("remote: %w", err)
	}
	var nodes []target.Node
	for _, n := range st.Nodes {
		host, _, err := net.SplitHostPort(n.ClientAddress)
		if err != nil {
			return nil, fmt.Errorf("remote: node %s has the client address %q: %w", n.ID, n.ClientAddress, err)
		}
		nodes = append(nodes, target.Node{ID: n.ID, Client: n.ClientAddress, AMQP: at(host, o.AMQPPort), HTTP: at(host, o.HTTPPort)})
	}
	found := New(o, nodes)
	found.given = o.Client.Addresses
	return found, nil
}

// New returns a cluster whose nodes are known, and reached at these addresses.
func New(o Options, nodes []target.Node) *Cluster { return &Cluster{options: o, nodes: nodes} }

// at is host:port, or nothing without a port.
func at(host string, port int) string {
	if port == 0 {
		return ""
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// Nodes implements target.Cluster.
func (c *Cluster) Nodes() []target.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.nodes)
}

// SetNodes says which nodes there are, after a scaling.
func (c *Cluster) SetNodes(nodes []target.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes = nodes
}

// Dial implements target.Cluster. Clients of all nodes also know the addresses at which the cluster was found, as others do:
// that of a service may lead to nodes while their own names still lead to where they were.
func (c *Cluster) Dial(nodes ...string) client.Config {
	cfg := c.options.Client
	cfg.Addresses, cfg.FixedAddresses = nil, true
	if len(nodes) == 0 {
		return c.dialAll(cfg)
	}
	for _, id := range nodes {
		for _, n := range c.Nodes() {
			if n.ID == id {
				cfg.Addresses = append(cfg.Addresses, n.Client)
			}
		}
	}
	return cfg
}

// dialAll adds the addresses of all nodes, and those that were given besides.
func (c *Cluster) dialAll(cfg client.Config) client.Config {
	for _, n := range c.Nodes() {
		cfg.Addresses = append(cfg.Addresses, n.Client)
	}
	for _, a := range c.given {
		if !slices.Contains(cfg.Addresses, a) {
			cfg.Addresses = append(cfg.Addresses, a)
		}
	}
	return cfg
}

// Login implements target.Cluster.
func (c *Cluster) Login() (user, password string) {
	if c.options.Client.Username == "" {
		return client.DefaultUser, client.DefaultUser
	}
	return c.options.Client.Username, c.options.Client.Password
}

// WaitReady implements target.Cluster: the node itself says that nothing hinders it.
func (c *Cluster) WaitReady(ctx context.Context, node string) error {
	cfg := c.Dial(node)
	if len(cfg.Addresses) == 0 {
		return fmt.Errorf("remote: there is no node %q", node)
	}
	nodeClient, err := client.New(cfg)
	if err != nil {
		return fmt.Errorf("remote: %w", err)
	}
	defer nodeClient.Close()
	for {
		asking, cancel := context.WithTimeout(ctx, askTimeout)
		st, err := nodeClient.ClusterDetails(asking)
		cancel()
		if err == nil {
			err = serves(st, node)
		}
		if err == nil {
			return nil
		}
		if ended := wait.For(ctx, pollEvery); ended != nil {
			return fmt.Errorf("remote: node %s is not ready: %w; last: %w", node, ended, err)
		}
	}
}

// serves returns why a node that answered about itself does not serve.
func serves(st client.ClusterStatus, node string) error {
	if st.Hindrance != "" {
		return errors.New(st.Hindrance)
	}
	for _, n := range st.Nodes {
		switch {
		case n.ID != node:
		case n.Start == nil || n.Start.Phase != started:
			return fmt.Errorf("node %s starts", node)
		case n.Draining:
			return fmt.Errorf("node %s is drained: restart it", node)
		default:
			return nil
		}
	}
	return fmt.Errorf("node %s does not know itself", node)
}

// started is the phase of a node that has started.
const started = "started"

// Log implements target.Cluster: it is not kept.
func (*Cluster) Log(context.Context, string, time.Time) ([]byte, error) { return nil, nil }

// Close implements target.Cluster: nothing was made.
func (*Cluster) Close(context.Context) error { return nil }
