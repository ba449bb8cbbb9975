package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/clock"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/cluster/nodeclock"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/gate"
	"github.com/quorate/quorate/internal/logtail"
	"github.com/quorate/quorate/tracing"
	"github.com/quorate/quorate/wal"
	"github.com/quorate/quorate/wal/vfs"
)

// Defaults of Config.
const (
	defaultExpect         = 3
	defaultConfirmTimeout = 60 * time.Second
	defaultCommandTimeout = 5 * time.Second
	defaultBodyCacheBytes = 256 << 20
	defaultPublishWindow  = 16384
	defaultDiskHang       = 10 * time.Second
	// defaultStaleness leaves time for an election of the catalog, 1 to 2 s, after the last proof.
	defaultStaleness = 5 * time.Second
)

// Validate returns all faults of the Config at once.
func (c Config) Validate() error {
	var faults []error
	need := func(missing bool, field, remedy string) {
		if missing {
			faults = append(faults, fmt.Errorf("cluster: %s is not set: %s", field, remedy))
		}
	}
	need(c.Name == "", "Name", "name the cluster, alike on all nodes")
	need(c.Node == "", "Node", "give the node an id that it keeps, and no other node has")
	need(c.DataDir == "", "DataDir", "name a directory for this node alone")
	need(c.Peers == nil, "Peers", "open a listener for other nodes")
	need(c.PeerAddr == "", "PeerAddr", "say at which host:port other nodes reach Peers")
	need(c.GossipAddr == "", "GossipAddr", "say at which host:port to gossip")
	if len(c.Node) > catalog.MaxNodeIDBytes {
		faults = append(faults, fmt.Errorf("cluster: Node is %d bytes long, the limit is %d", len(c.Node), catalog.MaxNodeIDBytes))
	}
	for _, t := range []struct{ field, text string }{{"Name", c.Name}, {"Node", string(c.Node)}} {
		if hasBreak(t.text) {
			faults = append(faults, fmt.Errorf("cluster: %s %q has a control character", t.field, t.text))
		}
	}
	if n := len(c.Key); n != 0 && n != 16 && n != 24 && n != 32 {
		faults = append(faults, fmt.Errorf("cluster: Key is %d bytes long: use 16, 24 or 32", n))
	}
	for _, n := range []struct {
		field string
		value int64
	}{
		{"Expect", int64(c.Expect)},
		{"SuspectAfter", int64(c.SuspectAfter)},
		{"CatalogStaleness", int64(c.CatalogStaleness)},
		{"PropagationTimeout", int64(c.PropagationTimeout)},
		{"HibernateAfter", int64(c.HibernateAfter)},
		{"BodyCacheBytes", c.BodyCacheBytes},
		{"TailBytes", c.TailBytes},
		{"ExportFloor", c.ExportFloor},
		{"PublishWindow", int64(c.PublishWindow)},
		{"Reconcile.Interval", int64(c.Reconcile.Interval)},
		{"Reconcile.Delay", int64(c.Reconcile.Delay)},
		{"Reconcile.AutoRemove", int64(c.Reconcile.AutoRemove)},
		{"Reconcile.ReplaceAfter", int64(c.Reconcile.ReplaceAfter)},
		{"Reconcile.LeadersDelay", int64(c.Reconcile.LeadersDelay)},
		{"DiskLow", c.DiskLow},
		{"DiskFloor", c.DiskFloor},
		{"DiskHang", int64(c.DiskHang)},
	} {
		if n.value < 0 {
			faults = append(faults, fmt.Errorf("cluster: %s is %d: set a positive value, or 0 for the default", n.field, n.value))
		}
	}
	if s := c.ClockSkew; s != 0 && (s < clock.MinLimit || s > clock.MaxLimit) {
		faults = append(faults, fmt.Errorf("cluster: ClockSkew is %v: set %v to %v, or 0 for the default", s, clock.MinLimit, clock.MaxLimit))
	}
	if c.DiskLow > 0 && c.DiskFloor > c.DiskLow {
		faults = append(faults, fmt.Errorf("cluster: DiskFloor is %d bytes: set at most DiskLow, %d", c.DiskFloor, c.DiskLow))
	}
	return errors.Join(faults...)
}

// hasBreak finds what would break a line of a log or a file.
func hasBreak(s string) bool {
	for _, r := range s {
		if r < ' ' || r == 0x7f {
			return true
		}
	}
	return false
}

// withDefaults is called after Validate.
func (c Config) withDefaults() Config {
	if c.Expect == 0 {
		c.Expect = defaultExpect
	}
	if c.ConfirmTimeout == 0 {
		c.ConfirmTimeout = defaultConfirmTimeout
	}
	if c.CommandTimeout == 0 {
		c.CommandTimeout = defaultCommandTimeout
	}
	if c.CatalogStaleness == 0 {
		c.CatalogStaleness = defaultStaleness
	}
	if c.BodyCacheBytes == 0 {
		c.BodyCacheBytes = defaultBodyCacheBytes
	}
	if c.TailBytes == 0 {
		c.TailBytes = wal.DefaultTailBytes
	}
	if c.PublishWindow == 0 {
		c.PublishWindow = defaultPublishWindow
	}
	c.Reconcile = c.Reconcile.WithDefaults()
	if c.DiskHang == 0 {
		c.DiskHang = defaultDiskHang
	}
	if c.LogDir == nil {
		c.LogDir = vfs.OS
	}
	if c.ClockSkew == 0 {
		c.ClockSkew = clock.DefaultLimit
	}
	if c.Lines == nil {
		c.Lines = logtail.New()
	}
	if c.Clock == nil {
		c.Clock = nodeclock.Machine()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Config describes this node. Zero values are the defaults.
type Config struct {
	Name       string // the cluster's name; nodes of another name are refused
	Node       id.NodeID
	DataDir    string // owned by one process: a second one is refused by a lock
	Peers      net.Listener
	PeerAddr   string // host:port at which peers reach Peers
	ClientAddr string // host:port at which clients reach this node; other nodes learn it
	GossipAddr string // host:port to bind gossip to
	GossipHost string // host:port at which others reach it; "": GossipAddr
	// Gossip bounds the connections for gossip; nil: by bounds of its own.
	Gossip *gate.Gate
	Join   []string
	Key    []byte // secret for gossip and peers; empty: none
	// TLS returns this node's certificate for peers and the authorities of all nodes'
	// certificates, as transport.Config.TLS; nil: no TLS.
	TLS     func() (own tls.Certificate, authorities *x509.CertPool)
	Expect  int // nodes that found the cluster together; 0: 3
	Version string
	Tracer  *tracing.Tracer // of dead letters; nil: nothing is traced
	Logger  *slog.Logger
	Lines   *logtail.Tail    // newest lines of the log of this node's process, for other nodes; nil: none
	Clock   nodeclock.Source // this machine's clocks; nil: the operating system's
	// LogDir opens the directory of the node's log; nil: vfs.OS.
	LogDir func(path string) (vfs.Dir, error)
	// Failed is notified that this node can store nothing any longer and should end: at once and without Close, which
	// would wait for the disk, if the error is disk.ErrHangs.
	Failed func(error)
	// Starting is notified often of the progress of Start; it must not block. Once Start has returned,
	// Cluster.StartProgress reports.
	Starting func(StartProgress)
	// Stopping is notified of each phase of Close when it begins; nil: nothing is called. It must not block.
	Stopping  func(StopPhase)
	Reconcile membership.ReconcileConfig
	// ManualFinalise leaves it to an operator to finalise a newer version (metadata.Group.Finalise);
	// one node that does is enough.
	ManualFinalise bool

	ConfirmTimeout time.Duration // PUB-5; 0: 60 s, negative: never
	CommandTimeout time.Duration // other commands without a leader; 0: 5 s (RE-5)
	SuspectAfter   time.Duration // a node that does not answer is lost to all groups; 0: 400 ms
	// CatalogStaleness is how old this node's view of the catalog may be when it answers that something does not
	// exist (EX-16); 0: 5 s.
	CatalogStaleness time.Duration
	// PropagationTimeout is how long a change of the catalog waits at most until the nodes to which this one has
	// connections see it too (EX-15); 0: 250 ms.
	PropagationTimeout time.Duration
	// ClockSkew is by how much nothing expires early or stands still, whatever wall clocks
	// show; by half of it they may differ and still be said to agree; 0: 500 ms.
	ClockSkew time.Duration
	// ExportFloor is the pace in bytes per second below which exports of this node's members are not slowed, all of
	// them together; 0: export.DefaultFloor.
	ExportFloor int64
	// HibernateAfter is how long a queue without consumers must be idle before all its members are closed until
	// somebody uses it; 0: never.
	HibernateAfter time.Duration
	// BodyCacheBytes and TailBytes bound what is kept in memory to save reads: bodies of
	// messages, 0: 256 MiB; and recent entries of the log, 0: 64 MiB. See LimitCaches.
	BodyCacheBytes, TailBytes int64
	PublishWindow             int // unanswered messages per queue and node; 0: 16384

	// DiskLow and DiskFloor are limits of the free bytes of the data directory's disk. Below
	// DiskLow the node leads nothing that others can lead, and its members do not count as
	// ones that can take messages; 0: 1 GiB, or a twentieth of the disk if that is less.
	// Below DiskFloor its members of queues stop until there is room again; 0: 256 MiB, or
	// an eightieth of the disk if that is less.
	DiskLow, DiskFloor int64
	// DiskHang is how long a write may take before the node ends; 0: 10 s. After 450 ms to
	// 1.5 s its leaders are silent, so that others take over.
	DiskHang time.Duration

	// MemoryPlan returns the limits of this process's memory, for vitals.Sources; nil: there are none.
	MemoryPlan func() (limit, high int64)

	// hosting changes what the host is made of, in tests that put faults between it and the transport;
	// nil: nothing.
	hosting func(*replica.Config)
}

// ErrDiskFailed is wrapped with what to do: a write to this node's log, or a sync of it, has failed; nothing more is
// written until the node is started again.
var ErrDiskFailed = errors.New("cluster: the disk has failed")
