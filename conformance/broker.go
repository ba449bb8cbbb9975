package conformance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
)

// Broker is a running server that the clients are tried on.
type Broker interface {
	// Kind is quorate or rabbitmq; known differences refer to it.
	Kind() string
	// Version describes its version for the report.
	Version() string
	// Address is the address for the next connection. Nodes of a cluster take turns.
	Address() (host, port string)
	// Close stops it.
	Close() error
}

// startTimeout bounds the start of a broker.
const startTimeout = 2 * time.Minute

// managementPort is the port of HTTP at which the reconnect tests ask the broker to drop
// connections.
const managementPort = 15672

// Quorate is a cluster of processes of this broker.
type Quorate struct {
	Cluster *chaos.Cluster
	dir     string
	turn    int
	// Only, unless nil, has the indexes of the nodes to connect to.
	Only []*chaos.Node
}

// StartQuorate starts n nodes of a binary. management, unless 0, is the port at which the first node
// serves RabbitMQ's HTTP paths.
func StartQuorate(ctx context.Context, binary string, n, management int) (*Quorate, error) {
	dir, err := os.MkdirTemp("", "conformance")
	if err != nil {
		return nil, err
	}
	c, err := chaos.NewCluster(chaos.ClusterConfig{Binary: binary, Dir: dir, Nodes: n, Name: "conformance", FirstManagementPort: management})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	q := &Quorate{Cluster: c, dir: dir}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		return nil, errors.Join(err, q.Close())
	}
	return q, nil
}

// Kind returns quorate.
func (q *Quorate) Kind() string { return "quorate" }

// Version returns the number of nodes.
func (q *Quorate) Version() string { return fmt.Sprintf("%d nodes", len(q.Cluster.Nodes)) }

// Address returns the nodes' addresses in turn.
func (q *Quorate) Address() (host, port string) {
	nodes := q.Only
	if nodes == nil {
		nodes = q.Cluster.Nodes
	}
	q.turn++
	host, port, _ = net.SplitHostPort(nodes[q.turn%len(nodes)].AMQP)
	return host, port
}

// Leader returns the node that leads a queue.
func (q *Quorate) Leader(ctx context.Context, queue string) (*chaos.Node, error) {
	c, err := client.Dial(ctx, client.Config{Addresses: q.Cluster.Addresses()})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for {
		x, err := c.GetQueue(ctx, client.QueueRef{VHost: "/", Name: queue})
		if n := q.Cluster.Node(x.Leader); err == nil && n != nil {
			return n, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("queue %s has no leader: %w: %w", queue, err, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Close kills the nodes and removes their files.
func (q *Quorate) Close() error {
	q.Cluster.Kill()
	return os.RemoveAll(q.dir)
}

// freeManagement reports whether the address that the reconnect tests need is free.
func freeManagement() bool {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(managementPort)))
	return err == nil && l.Close() == nil
}

// Binary returns the path where `make build` writes the node's program.
func Binary() (string, error) {
	path, err := filepath.Abs("../bin/quorate")
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w: run make build", err)
	}
	return path, nil
}

// firstLine returns the first line of an error or output.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
