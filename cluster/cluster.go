// Package cluster makes one node part of a cluster: it hosts the node's members of Raft
// groups, knows who leads which group, and carries commands and deliveries between this
// node as gateway, for its own clients, and the hosts that lead.
package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/disk"
	"github.com/quorate/quorate/cluster/gossip"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/cluster/nodeclock"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/gate"
	"github.com/quorate/quorate/wal/vfs"
)

// Config describes this node. Zero values are the defaults.
type Config struct {
	Name       string // the cluster's name; nodes of another name are refused
	Node       id.NodeID
	DataDir    string // owned by one process: a second one is refused by a lock
	Peers      net.Listener
	PeerAddr   string // host:port at which peers reach Peers
	ClientAddr string // host:port at which clients reach this node; told to others
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
	Logger  *slog.Logger
	Clock   nodeclock.Source // this machine's clocks; nil: the operating system's
	// LogDir opens the directory of the node's log; nil: vfs.OS.
	LogDir func(path string) (vfs.Dir, error)
	// Failed is notified that this node can keep nothing any more and should end: at once and
	// without Close, which would wait for the disk, if the error is disk.ErrHangs.
	Failed func(error)
	// Starting is notified how far Start is, often; it must not block. Once Start has returned,
	// Cluster.StartProgress tells.
	Starting  func(StartProgress)
	Reconcile membership.ReconcileConfig
	// ManualFinalise leaves it to an operator to finalise a newer version (metadata.Group.Finalise);
	// one node that does is enough.
	ManualFinalise bool

	ConfirmTimeout time.Duration // PUB-5; 0: 60 s, negative: never
	CommandTimeout time.Duration // other commands without a leader; 0: 5 s (RE-5)
	SuspectAfter   time.Duration // a node that does not answer is lost to all groups; 0: 400 ms
	// CatalogStaleness is how old this node's view of the catalog may be for it to say that
	// something is not there (EX-16); 0: 5 s.
	CatalogStaleness time.Duration
	// ClockSkew is by how much nothing expires early or stands still, whatever wall clocks
	// show; by half of it they may differ and still be said to agree; 0: 500 ms.
	ClockSkew time.Duration
	// HibernateAfter is how long a queue without consumers does nothing before all its
	// members are closed until somebody asks for it; 0: never.
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

	// hosting changes what the host is made of, in tests that put faults between it and the transport;
	// nil: nothing.
	hosting func(*replica.Config)
}

// ErrDiskFailed is wrapped with what to do: a write to this node's log, or a sync of it, has
// failed; nothing is written any more until the node is started again.
var ErrDiskFailed = errors.New("cluster: the disk has failed")

// Status is what an operator sees of the cluster from this node.
type Status struct {
	Name          string
	Node          id.NodeID
	Epoch         id.Epoch
	CatalogLeader id.NodeID
	CatalogIndex  uint64
	Finalised     catalog.Version
	Nodes         []NodeStatus
}

// NodeStatus is one node as this one sees it.
type NodeStatus struct {
	gossip.Node
	Connected bool
	Refused   string            // why this node refuses it now; "": it does not
	Replicas  int               // queue group members by the catalog
	Leaders   int               // of them led, as far as this node knows
	Disk      *disk.State       // as the node has told it; nil: it has not
	Clock     *nodeclock.Status // as this node has measured it; nil: it has not, or not lately
}
