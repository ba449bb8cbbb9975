// Package cluster makes one node part of a cluster: it hosts the node's members of Raft
// groups, knows who leads which group, and carries commands and deliveries between this
// node as gateway, for its own clients, and the hosts that lead.
package cluster

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/id"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
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
	Join       []string
	Key        []byte // secret for gossip and peers; empty: none
	Expect     int    // nodes that found the cluster together; 0: 3
	Version    string
	Logger     *slog.Logger
	// QueueConfig tells what is in force for a queue; the leader puts it into the queue's
	// log whenever it differs. It must be a pure function of its arguments.
	QueueConfig func(v *catalog.View, q *catalog.QueueRecord) quorumq.Config
	// Leaders is told about the queues that this node leads.
	Leaders Leaders

	ConfirmTimeout   time.Duration // PUB-5; 0: 60 s, negative: never
	CommandTimeout   time.Duration // other commands without a leader; 0: 5 s (RE-5)
	HeartbeatTimeout time.Duration // of Raft groups; 0: 500 ms
	BodyCacheBytes   int64         // 0: 256 MiB
	PublishWindow    int           // unanswered messages per queue and node; 0: 16384
}

// Leaders is told about the queues that this node leads by their Lead command. Calls for
// one queue come in order; they must not block.
type Leaders interface {
	// Leading hands over a queue that this node began to lead.
	Leading(q *Led)
	// Ceased takes it back.
	Ceased(q *Led)
	// Backlog tells that the queue's backlog has news.
	Backlog(q *Led)
	// Copies hands over at-most-once dead letters, in order (DL-11). The slice is the
	// receiver's.
	Copies(q *Led, d []quorumq.Discarded)
}

// Errors that callers decide on. Each is wrapped with the queue and what to do.
var (
	// ErrUnavailable: no leader in time; the command has not, and will not, take effect.
	ErrUnavailable = errors.New("cluster: queue has no leader that can be reached")
	// ErrUnknownOutcome: the command may or may not have taken effect.
	ErrUnknownOutcome = errors.New("cluster: outcome unknown")
	// ErrNoSuchQueue: the queue is not, or no longer, in the catalog.
	ErrNoSuchQueue = errors.New("cluster: no such queue")
	// ErrRefused: a length limit refused the message (LEN-4).
	ErrRefused = errors.New("cluster: refused by the queue's length limit")
	// ErrExclusive: another consumer has or bars exclusive access (CO-2).
	ErrExclusive = errors.New("cluster: exclusive access")
	// ErrConsumerGone: the consumer was cancelled or closed.
	ErrConsumerGone = errors.New("cluster: consumer is gone")
	// ErrClosed: this node is stopping.
	ErrClosed = errors.New("cluster: node is stopping")
)

// Cluster is this node's part. All methods may be called concurrently.
type Cluster struct {
	cfg   Config
	epoch id.Epoch
}

var errNotYet = errors.New("cluster: not built yet")

// Status is what an operator sees of the cluster from this node.
type Status struct {
	Name          string
	Node          id.NodeID
	Epoch         id.Epoch
	CatalogLeader id.NodeID
	CatalogIndex  uint64
	Nodes         []NodeStatus
}

// NodeStatus is one node as this one sees it.
type NodeStatus struct {
	membership.Node
	Connected bool
	Replicas  int // queue group members by the catalog
	Leaders   int // of them led, as far as this node knows
}

// QueueStatus is one queue's state.
type QueueStatus struct {
	Overview quorumq.Overview
	Leader   id.NodeID
	Members  []id.NodeID
	Online   []id.NodeID
	Group    *nodev1.GroupStatus
}

// Start joins the cluster, or founds it with Config.Expect others, and recovers what the
// data directory holds. It returns when the node serves its peers; Ready tells when it
// can serve clients. Leaders and QueueConfig may be called before Start returns.
func Start(ctx context.Context, c Config) (*Cluster, error) { return nil, errNotYet }

// Ready returns nil when the catalog has a leader, this node's view is caught up and the
// node's groups are open; otherwise what is missing.
func (c *Cluster) Ready() error { return errNotYet }

// Drain moves leadership of all groups off this node and waits until it leads nothing,
// naming in its error what is left when ctx ends.
func (c *Cluster) Drain(ctx context.Context) error { return errNotYet }

// Close leaves gossip, stops the groups and releases the data directory.
func (c *Cluster) Close(ctx context.Context) error { return errNotYet }

// View returns the catalog as this node knows it.
func (c *Cluster) View() *catalog.View { return nil }

// ViewChanged returns a channel that is closed at the view's next change.
func (c *Cluster) ViewChanged() <-chan struct{} { return nil }

// ProposeCatalog puts a catalog command through and waits until this node's view shows
// it (EX-15). A catalog.Error in the reply comes back as the error.
func (c *Cluster) ProposeCatalog(ctx context.Context, cmd catalog.Command) (catalog.Reply, error) {
	return catalog.Reply{}, errNotYet
}

// DeclareQueue places a new queue on size nodes, this one among them if it can be
// (RE-1), and returns when it has a leader with its configuration in force. If the queue
// exists, the catalog decides about equivalence.
func (c *Cluster) DeclareQueue(ctx context.Context, d catalog.DeclareQueue, size int, balanced bool) (catalog.Reply, error) {
	return catalog.Reply{}, errNotYet
}

// Status returns the state of the cluster.
func (c *Cluster) Status(ctx context.Context) (Status, error) { return Status{}, errNotYet }

// QueueStatus returns a queue's state, read from its leader.
func (c *Cluster) QueueStatus(ctx context.Context, q id.QueueUID) (QueueStatus, error) {
	return QueueStatus{}, errNotYet
}

// TransferLeadership moves a queue's leadership to one of its members.
func (c *Cluster) TransferLeadership(ctx context.Context, q id.QueueUID, to id.NodeID) error {
	return errNotYet
}

// Queue returns this node's end of a queue; ErrNoSuchQueue if the view has none.
func (c *Cluster) Queue(q id.QueueUID) (*Queue, error) { return nil, errNotYet }
