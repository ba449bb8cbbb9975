// Package testcluster runs a cluster of real nodes in one process, on loopback: gossip,
// node-to-node connections, client connections and data directories are those of a real cluster. It
// is for tests of everything above package cluster.
package testcluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/amqp"
	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/certificate"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/cluster/nodeclock"
	"github.com/quorate/quorate/grpcapi"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/authority"
	"github.com/quorate/quorate/internal/incoming"
	"github.com/quorate/quorate/internal/logtail"
	"github.com/quorate/quorate/internal/loopback"
	"github.com/quorate/quorate/tracing"
)

// Bounds of waiting.
const (
	startTimeout       = time.Minute
	propagationTimeout = 2 * time.Second // a busy machine may leave another node behind for longer than the default
	stopTimeout        = 2 * time.Minute
	busyTimeout        = 5 * time.Second
	pollEvery          = 5 * time.Millisecond
	certificateLife    = time.Hour
	clusterName        = "test"
)

// logEnv names the variable that makes the nodes log to the standard error.
const logEnv = "QUORATE_TEST_LOG"

// Cluster is n nodes. Its methods belong to the test's goroutine.
type Cluster struct {
	t     testing.TB
	dir   string
	nodes []*node
	// authority issues the nodes' certificates; nil: no TLS between them.
	authority *authority.Authority
	settings  Settings
	hibernate time.Duration                     // time after which an unused queue is closed; 0: never
	command   time.Duration                     // how long a command waits for a leader; 0: the node's default
	suspect   time.Duration                     // how long a node may be silent before the others take it for dead; 0: the node's default
	clocks    []*Clock                          // of the nodes' machines; nil: the operating system's
	tracers   func(node string) *tracing.Tracer // nil: nothing is traced
	incoming  int64                             // limits.incoming_bytes of each node, over gRPC; 0: the default
}

// node is one node's settings, and its parts while it runs.
type node struct {
	name                         id.NodeID
	gossip, peers, clients, amqp string // host:port, kept over restarts

	running bool
	broker  *broker.Broker
	cluster *cluster.Cluster
	server  *grpcapi.Server
	amqpd   *amqp.Server
	room    *incoming.Budget // of what the gRPC server receives
	served  chan error       // an error from each server when it ends
	lines   *logtail.Tail    // of its log
}

// Start starts n nodes, waits until all are ready, and stops them at the test's end.
func Start(t testing.TB, n int) *Cluster {
	t.Helper()
	return start(t, n, nil, broker.Config{})
}

// StartWith is Start with settings of the brokers. The cluster's own values apply where they have
// one.
func StartWith(t testing.TB, n int, cfg broker.Config) *Cluster {
	t.Helper()
	return start(t, n, nil, cfg)
}

// StartTLS is Start with TLS between the nodes.
func StartTLS(t testing.TB, n int) *Cluster {
	t.Helper()
	a, err := authority.New("testcluster", time.Now().Add(-certificateLife), time.Now().Add(certificateLife))
	if err != nil {
		t.Fatal(err)
	}
	return start(t, n, a, broker.Config{})
}

// StartIncoming is Start with a bound, in bytes, of the large messages that a node receives over gRPC at the same time.
func StartIncoming(t testing.TB, n int, bytes int64) *Cluster {
	t.Helper()
	return (&Cluster{t: t, dir: t.TempDir(), incoming: bytes}).start(n)
}

// StartMany is Start for many queues, which hibernate when they are unused for a time, if that is
// not 0. The nodes share one process's processors: a long timeout keeps busy nodes from being taken for
// dead.
func StartMany(t testing.TB, n int, hibernate time.Duration) *Cluster {
	t.Helper()
	return (&Cluster{t: t, dir: t.TempDir(), hibernate: hibernate, suspect: busyTimeout}).start(n)
}

// ManyQueues returns how many queues a benchmark of many has: few unless QUORATE_SCALE_GROUPS asks for more, so that running
// all benchmarks stays cheap.
func ManyQueues(b *testing.B) int {
	b.Helper()
	text := os.Getenv("QUORATE_SCALE_GROUPS")
	if text == "" {
		return 100
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 100 {
		b.Fatalf("QUORATE_SCALE_GROUPS is %q: set a number of queues, 100 or more", text)
	}
	return n
}

// StartPatient is Start with a bound for how long a command waits for a leader (RE-5).
func StartPatient(t testing.TB, n int, command time.Duration) *Cluster {
	t.Helper()
	return (&Cluster{t: t, dir: t.TempDir(), command: command}).start(n)
}

// StartTraced is Start with a tracer for each node, which the caller closes.
func StartTraced(t testing.TB, n int, tracers func(node string) *tracing.Tracer) *Cluster {
	t.Helper()
	return (&Cluster{t: t, dir: t.TempDir(), tracers: tracers}).start(n)
}

// StartClocks is Start on machines whose clocks a test can set.
func StartClocks(t testing.TB, n int) (*Cluster, []*Clock) {
	t.Helper()
	c := &Cluster{t: t, dir: t.TempDir()}
	for range n {
		c.clocks = append(c.clocks, newClock())
	}
	return c.start(n), c.clocks
}

func start(t testing.TB, n int, a *authority.Authority, cfg broker.Config) *Cluster {
	t.Helper()
	return (&Cluster{t: t, dir: t.TempDir(), authority: a, settings: Settings{Broker: cfg}}).start(n)
}

// start starts n nodes and waits until all are ready. It chooses the addresses of all nodes first,
// because each node must know the others'.
func (c *Cluster) start(n int) *Cluster {
	t := c.t
	t.Helper()
	taken := map[string]bool{}
	address := func() string {
		addr := freeAddr(t)
		for taken[addr] {
			addr = freeAddr(t)
		}
		taken[addr] = true
		return addr
	}
	for i := range n {
		c.nodes = append(c.nodes, &node{
			name: id.NodeID("node-" + strconv.Itoa(i)), gossip: address(), peers: address(), clients: address(), amqp: address(),
		})
	}
	t.Cleanup(func() {
		for i := range c.nodes {
			c.Kill(i)
		}
	})
	for i := range c.nodes {
		c.launch(i)
	}
	for i := range c.nodes {
		c.AwaitReady(i)
	}
	return c
}

// freeAddr returns a loopback address that is free for TCP and UDP.
func freeAddr(t testing.TB) string {
	t.Helper()
	address, err := loopback.Address()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// Addrs returns the addresses for clients, in the order of the nodes.
func (c *Cluster) Addrs() []string {
	out := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		out[i] = n.clients
	}
	return out
}

// AMQP returns a node's address for AMQP 0-9-1 clients.
func (c *Cluster) AMQP(i int) string { return c.nodes[i].amqp }

// Broker returns the broker of a running node.
func (c *Cluster) Broker(i int) *broker.Broker { return c.nodes[i].broker }

// Lines returns the newest lines of a running node's log.
func (c *Cluster) Lines(i int) *logtail.Tail { return c.nodes[i].lines }

// Incoming returns the budget of what a running node receives over gRPC.
func (c *Cluster) Incoming(i int) *incoming.Budget { return c.nodes[i].room }

// Cluster returns a running node's part of the cluster.
func (c *Cluster) Cluster(i int) *cluster.Cluster { return c.nodes[i].cluster }

// Name returns a node's id.
func (c *Cluster) Name(i int) string { return string(c.nodes[i].name) }

// Index returns the place of the node with this id, or -1.
func (c *Cluster) Index(name string) int {
	for i, n := range c.nodes {
		if string(n.name) == name {
			return i
		}
	}
	return -1
}

// Kill stops a node without draining it; its data directory stays.
func (c *Cluster) Kill(i int) {
	c.t.Helper()
	n := c.nodes[i]
	if !n.running {
		return
	}
	n.running = false
	// The context has ended: calls are cut off, and Shutdown waits for nothing.
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := n.server.Shutdown(ended); err != nil && !errors.Is(err, context.Canceled) {
		c.t.Errorf("node %s: %v", n.name, err)
	}
	if err := n.amqpd.Shutdown(ended); err != nil && !errors.Is(err, context.Canceled) {
		c.t.Errorf("%s: %v", n.name, err)
	}
	if err := errors.Join(<-n.served, <-n.served); err != nil {
		c.t.Errorf("node %s: serving clients: %v", n.name, err)
	}
	n.broker.Close()
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := n.cluster.Close(ctx); err != nil {
		c.t.Errorf("node %s: closing: %v", n.name, err)
	}
}

// Lose deletes the data directory of a killed node, as the loss of its disk does.
func (c *Cluster) Lose(i int) {
	c.t.Helper()
	if err := os.RemoveAll(filepath.Join(c.dir, string(c.nodes[i].name))); err != nil {
		c.t.Fatal(err)
	}
}

// Launch starts a killed node on its data directory and does not wait until it is ready.
func (c *Cluster) Launch(i int) {
	c.t.Helper()
	c.launch(i)
}

// Restart starts a killed node on its data directory and waits until it is ready.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	c.launch(i)
	c.AwaitReady(i)
}

// RestartAll starts all nodes on their data directories. All must have been killed.
func (c *Cluster) RestartAll() {
	c.t.Helper()
	for i := range c.nodes {
		c.launch(i)
	}
	for i := range c.nodes {
		c.AwaitReady(i)
	}
}

// AwaitReady waits until a node can serve clients.
func (c *Cluster) AwaitReady(i int) {
	c.t.Helper()
	Poll(c.t, fmt.Sprintf("node %s is ready", c.nodes[i].name), c.nodes[i].broker.Ready)
}

// Poll waits until f returns nil, and fails the test if it does not in time.
func Poll(t testing.TB, what string, f func() error) {
	t.Helper()
	deadline := time.Now().Add(startTimeout)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s: %v", what, err)
		}
		time.Sleep(pollEvery)
	}
}

// launch starts a node with its directory and addresses, for the first time or again.
func (c *Cluster) launch(i int) {
	c.t.Helper()
	n := c.nodes[i]
	log := slog.New(slog.DiscardHandler)
	if os.Getenv(logEnv) != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	level, lines := &logtail.Level{}, logtail.New()
	log = slog.New(lines.Handler(log.Handler())).With("node", string(n.name))
	var join []string
	for _, m := range c.nodes {
		if m != n {
			join = append(join, m.gossip)
		}
	}
	cfg := c.settings.Broker
	if cfg.Authenticate = true; cfg.Logger == nil {
		cfg.Logger = log
	}
	if c.tracers != nil {
		cfg.Tracer = c.tracers(string(n.name))
	}
	var clock nodeclock.Source
	if c.clocks != nil {
		clock = c.clocks[i]
	}
	var memory func() (limit, high int64)
	if high := c.settings.MemoryHigh; high != nil {
		memory = func() (int64, int64) { return 0, high(i) }
	}
	started, err := cluster.Start(c.t.Context(), cluster.Config{
		Clock: clock,
		Name:  clusterName, Node: n.name, DataDir: filepath.Join(c.dir, string(n.name)),
		Peers: c.listen(n.peers), PeerAddr: n.peers, ClientAddr: n.clients,
		GossipAddr: n.gossip, Join: join, Expect: len(c.nodes), Version: "test", Tracer: cfg.Tracer, Logger: log, Lines: lines,
		TLS: c.material(n.name), HibernateAfter: c.hibernate, SuspectAfter: c.suspect, CommandTimeout: c.command,
		PropagationTimeout: propagationTimeout, DiskLow: c.settings.DiskLow, ManualFinalise: c.settings.ManualFinalise,
		MemoryPlan: memory,
		Reconcile:  membership.ReconcileConfig{Disabled: c.settings.NoRepair},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	n.cluster, n.lines = started, lines
	n.broker = broker.New(started, cfg)
	n.room = incoming.New(c.incoming)
	n.server = grpcapi.New(grpcapi.Config{Broker: n.broker, Logger: log, Reflection: true, Incoming: n.room, Node: string(n.name), Lines: lines, Level: level})
	n.amqpd = amqp.New(amqp.Config{Broker: n.broker, Logger: log, Version: "test", Cluster: clusterName})
	n.served = make(chan error, 2)
	l, la := c.listen(n.clients), c.listen(n.amqp)
	go func() { n.served <- n.server.Serve(l) }()
	go func() { n.served <- n.amqpd.Serve(la) }()
	n.running = true
}

// material issues a node's certificate; nil without TLS.
func (c *Cluster) material(n id.NodeID) func() (tls.Certificate, *x509.CertPool) {
	c.t.Helper()
	if c.authority == nil {
		return nil
	}
	pair, err := c.authority.Issue(authority.Request{
		CommonName: string(n), URIs: []*url.URL{certificate.Name(clusterName, n)},
		Usages:    []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		NotBefore: time.Now().Add(-certificateLife), NotAfter: time.Now().Add(certificateLife),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	own, err := tls.X509KeyPair(pair.Cert, pair.Key)
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(c.authority.Pair().Cert) {
		c.t.Fatal("no TLS material: ", err)
	}
	return func() (tls.Certificate, *x509.CertPool) { return own, pool }
}

// listen opens an address that was chosen earlier. It waits while another process has the port.
func (c *Cluster) listen(addr string) (l net.Listener) {
	c.t.Helper()
	// Another test may be checking whether this port is free.
	Poll(c.t, "listening on "+addr, func() (err error) {
		l, err = new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
		return err
	})
	return l
}
