// Package serve runs one node: it wires cluster, broker and front door together, answers
// health probes, and stops in order.
package serve

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/access/ldap"
	"github.com/quorate/quorate/access/oauth2"
	"github.com/quorate/quorate/amqp"
	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/imports"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/disk"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/cmd/node/config"
	"github.com/quorate/quorate/grpcapi"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/incoming"
	"github.com/quorate/quorate/internal/tlsfiles"
	"github.com/quorate/quorate/internal/wait"
	"github.com/quorate/quorate/management"
	"github.com/quorate/quorate/management/stats"
	"github.com/quorate/quorate/metrics"
	"github.com/quorate/quorate/tracing"
)

const (
	dirMode = 0o750
	// lastWords is how long the log may take to record why the process ends at once.
	lastWords = time.Second
	// maxShownBytes bounds how much of a name from an unauthenticated client is logged.
	maxShownBytes = 128
)

// node is the running node; one goroutine starts and stops it.
type node struct {
	cfg          *config.Config
	version      string
	log          *slog.Logger
	health       *health
	http         *http.Server
	broker       *broker.Broker
	part         *cluster.Cluster
	api          *grpcapi.Server
	amqp         []*amqp.Server
	incoming     *incoming.Budget
	incomingAMQP *amqp.Incoming
	outgoing     *incoming.Budget // of large answers
	anew         Anew
	management   *http.Server                    // nil: none
	operators    *management.Handler             // what it serves
	stats        *stats.Collector                // what it and api show of the cluster
	debug        *http.Server                    // nil: none
	metrics      atomic.Pointer[metrics.Metrics] // nil before the node has started
	// metricsToken is the hash of the token that /metrics/queues needs; nil: none.
	metricsToken atomic.Pointer[[sha256.Size]byte]
	settings     atomic.Pointer[map[string]any] // in force, see keepSettings
	failed       chan error                     // a listener ended unexpectedly, or nothing can be stored any longer

	tokens    *oauth2.Backend // nil: backend oauth2 is off
	directory *ldap.Backend   // nil: backend ldap is off
	gates     gates
	tracer    *tracing.Tracer // nil: nothing is traced

	peerTLS, clientTLS *tlsfiles.Files // nil: no TLS
	watches            sync.WaitGroup
	unwatch            chan struct{} // closed to end the watches
	stopping           *watchdog
	memory             atomic.Pointer[memoryPlan]
	processors         processors
	hashed             atomic.Bool // a password hash has begun since the heap was checked
}

// Run runs a node until ctx ends, then drains and stops it. Other nodes receive version. A node
// whose member of the catalog must be rebuilt restarts within this process. A reload changes cfg.
func Run(ctx context.Context, cfg *config.Config, version string, log *slog.Logger, anew Anew) error {
	for again := uint64(0); ; again++ {
		setHeap(workingPercent)
		n := newNode(cfg, version, log)
		n.anew = anew
		err := n.live(ctx)
		if !errors.Is(err, metadata.ErrFailed) || ctx.Err() != nil {
			return err
		}
		log.Warn("the node restarts in its process", "node", cfg.NodeID, "times", again+1, "error", err)
		if wait.For(ctx, againAfter(again)) != nil {
			return nil //nolint:nilerr // it was asked to stop
		}
	}
}

// live runs one life of the node.
func (n *node) live(ctx context.Context) error {
	asked := context.AfterFunc(ctx, func() { n.stopping.within(StopLimit) }) // a start may take longer
	err := n.start(ctx, n.version)
	asked()
	if err == nil {
		n.log.Info("the node is started", "node", n.cfg.NodeID, "cluster", n.cfg.Cluster.Name, "version", n.version,
			"client", n.cfg.Listen.Client, "peer", n.cfg.Listen.Peer, "http", n.cfg.Listen.HTTP, "data_dir", n.cfg.DataDir)
		n.notifyManager("STATUS=serves clients on " + n.cfg.Listen.Client)
		err = n.running(ctx)
	} else if ctx.Err() != nil {
		err = nil // asked to stop while starting
	} else {
		n.slowly(ctx, err)
	}
	return errors.Join(err, n.stop(err == nil))
}

// running returns when the node must stop, with the error if it has failed.
func (n *node) running(ctx context.Context) error {
	settings := watchedFile{name: n.anew.File}
	settings.changed() // from now on
	look := time.NewTicker(settingsEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-n.failed:
			return err
		case <-n.anew.Asked:
			settings.changed() // it is read now
			n.anew.fault = ""  // the caller wants to know
			n.readAnew()
		case <-look.C:
			if settings.changed() || n.anew.fault != "" {
				n.readAnew()
			}
		}
	}
}

func newNode(cfg *config.Config, version string, log *slog.Logger) *node {
	return &node{
		cfg: cfg, version: version, log: log, gates: newGates(cfg, log), health: newHealth(cfg.DataDir),
		failed: make(chan error, 7), unwatch: make(chan struct{}), stopping: newWatchdog(cfg.NodeID, log),
	}
}

// start starts the parts from below. What can be checked without the cluster is checked first, and
// probes and profiles are served before the long part begins. After an error stop ends what has
// started.
func (n *node) start(ctx context.Context, version string) error {
	if _, err := n.cfg.GossipKey(); err != nil {
		return err // before anything is created
	}
	if err := os.MkdirAll(n.cfg.DataDir, dirMode); err != nil {
		return fmt.Errorf("data_dir: %w: name a directory that user %d may create and write", err, os.Getuid())
	}
	var err error
	if n.clientTLS, err = n.cfg.ClientTLS(n.log); err != nil {
		return err
	}
	if err := n.readMetricsToken(); err != nil {
		return err
	}
	if err := errors.Join(n.serveHealth(ctx), n.serveDebug(ctx)); err != nil {
		return err
	}
	n.notifyManager(managerReady, "STATUS=starting: looks for the other nodes, and reads the log")
	if name := n.cfg.Advertise.Host; name != "" && net.ParseIP(name) == nil {
		n.watches.Go(func() { n.watchName(name, net.DefaultResolver.LookupHost) })
	}
	n.planMemory()
	n.openTracing(ctx)
	c, err := n.clusterConfig(ctx, version)
	if err != nil {
		return err
	}
	password, err := n.cfg.DefaultPassword()
	if err != nil {
		return err
	}
	document, err := n.cfg.ReadDefinitions()
	if err != nil {
		return err
	}
	b := broker.Config{
		Definitions:  imports.AtStart{Document: document, Always: !n.cfg.Definitions.SkipIfUnchanged},
		MaxBodyBytes: n.cfg.Limits.MaxMessageBytes, DeliveryBufferBytes: n.cfg.Limits.DeliveryBufferBytes, Logger: n.log,
		Authenticate: n.cfg.Authenticate(), DefaultUser: n.cfg.Auth.DefaultUser, DefaultPassword: password,
		LoopbackUsers: n.cfg.Auth.LoopbackUsers, ConnectionTimeout: n.cfg.Timeouts.Connections,
		RelaxedTypeCheck: n.cfg.Queue.RelaxedTypeCheck, HostToken: identity.NewHostToken(), Hashing: n.hashing,
		Tracer: n.tracer,
	}
	if err := b.Validate(); err != nil {
		return err
	}
	n.watchTLS()
	if err := n.openBackends(); err != nil {
		return err
	}
	b.Backends = n.backends
	if err := n.join(ctx, c); err != nil {
		return err
	}
	n.keepHostToken(b.HostToken)
	n.broker = broker.New(n.part, b)
	n.health.started(n.broker.Ready, n.warning)
	n.watches.Go(n.watchMemory)
	n.watches.Go(n.watchUse)
	return n.serveClients(ctx)
}

// clusterConfig makes the configuration of the cluster part. It opens the listener for peers, since
// its address may be needed to notify others.
func (n *node) clusterConfig(ctx context.Context, version string) (cluster.Config, error) {
	caches := n.memory.Load().caches
	c := cluster.Config{
		Name: n.cfg.Cluster.Name, Node: id.NodeID(n.cfg.NodeID), DataDir: n.cfg.DataDir, GossipAddr: n.cfg.Listen.Gossip,
		Gossip: n.gates.gossip, Join: n.cfg.Cluster.Join, Expect: n.cfg.Cluster.Expect, Version: version, Lines: n.anew.Lines, Tracer: n.tracer, Logger: n.log,
		Failed:         n.fail,
		Starting:       n.health.starting,
		Stopping:       func(p cluster.StopPhase) { n.stopping.enter(string(p)) },
		ConfirmTimeout: n.cfg.Timeouts.Confirm, CommandTimeout: n.cfg.Timeouts.Command,
		SuspectAfter: n.cfg.Timeouts.Suspect, CatalogStaleness: n.cfg.Timeouts.CatalogStaleness, ClockSkew: n.cfg.Timeouts.ClockSkew,
		Reconcile: membership.ReconcileConfig{
			Disabled: !n.cfg.Cluster.Reconcile.Enabled, Interval: n.cfg.Cluster.Reconcile.Interval,
			Delay: n.cfg.Cluster.Reconcile.Delay, AutoRemove: n.cfg.Cluster.Reconcile.AutoRemove,
			ReplaceAfter: n.cfg.Cluster.ReplaceLostAfter,
			KeepLeaders:  !n.cfg.Cluster.Reconcile.Leaders, LeadersDelay: n.cfg.Cluster.Reconcile.LeadersDelay,
		},
		ManualFinalise: n.cfg.Cluster.Finalize == config.FinalizeManual,
		HibernateAfter: n.cfg.Timeouts.Hibernate,
		MemoryPlan:     func() (limit, high int64) { p := n.memory.Load(); return p.limit, p.high },
		BodyCacheBytes: caches.Bodies, TailBytes: caches.Tail, PublishWindow: n.cfg.Limits.PublishWindow, ExportFloor: n.cfg.Limits.ExportFloor,
		DiskLow: n.cfg.Storage.DiskLow, DiskFloor: n.cfg.Storage.DiskFloor, DiskHang: n.cfg.Timeouts.DiskHang,
	}
	if c.ConfirmTimeout == 0 {
		c.ConfirmTimeout = -1 // never
	}
	var errs [6]error
	c.Key, errs[0] = n.cfg.GossipKey()
	c.PeerAddr, errs[1] = n.cfg.Reachable(n.cfg.Listen.Peer)
	c.ClientAddr, errs[2] = n.cfg.Reachable(n.cfg.Listen.Client)
	c.GossipHost, errs[3] = n.cfg.ReachableGossip()
	c.Peers, errs[4] = n.listenPeers(ctx)
	if n.peerTLS, errs[5] = n.cfg.PeerTLS(n.log); n.peerTLS != nil {
		c.TLS = n.peerTLS.Current
	}
	return c, errors.Join(errs[:]...)
}

// fail ends the node. If the disk hangs it ends the process, because an orderly stop would wait for
// the disk, and so may the log.
func (n *node) fail(err error) {
	if !errors.Is(err, disk.ErrHangs) {
		n.failed <- err
		return
	}
	exitAfter(os.Exit, ExitDiskHangs, func() {
		n.log.Error("the process ends because its disk hangs", "node", n.cfg.NodeID, "exit_code", ExitDiskHangs, "error", err)
	})
}

// listen opens a TCP listener; the error names its setting.
func listen(ctx context.Context, key, address string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: choose another address, or stop what uses this one", key, err)
	}
	return l, nil
}

// serveHealth serves probes and metrics from the first moment on, so that a long start can be
// watched.
func (n *node) serveHealth(ctx context.Context) error {
	l, err := listen(ctx, "listen.http", n.cfg.Listen.HTTP)
	if err != nil {
		return err
	}
	var secure *tls.Config
	if n.cfg.HTTP.TLS {
		secure = n.forAnybody()
	}
	n.http = probed(n.operations())
	go n.health.watchDisk()
	n.serveHTTP("listen.http", n.http, n.gates.probes.Listen(l), secure)
	return nil
}

// serveClients opens what clients use, after all else has started.
func (n *node) serveClients(ctx context.Context) error {
	l, err := listen(ctx, "listen.client", n.cfg.Listen.Client)
	if err != nil {
		return err
	}
	n.stats = stats.New(stats.Config{Broker: n.broker, Logger: n.log})
	c := grpcapi.Config{
		Gate: n.gates.clients, Broker: n.broker, Logger: n.log, Reflection: true, Incoming: n.incoming, Outgoing: n.outgoing,
		WindowBytes: windowOf(n.memory.Load().limit), Node: n.cfg.NodeID, Lines: n.anew.Lines, Level: n.anew.Level, Stats: n.stats,
	}
	if n.clientTLS != nil {
		c.TLS = n.forClients()
	}
	if err := c.Validate(); err != nil {
		return err
	}
	n.api = grpcapi.New(c)
	go func() {
		if err := n.api.Serve(l); err != nil {
			n.failed <- fmt.Errorf("listen.client: %w", err)
		}
	}()
	err = errors.Join(n.serveAMQP(ctx, "listen.amqp", n.cfg.AMQP(), nil), n.serveAMQP(ctx, "listen.amqps", n.cfg.AMQPS(), c.TLS))
	n.showMetrics()
	return errors.Join(err, n.serveManagement(ctx))
}
