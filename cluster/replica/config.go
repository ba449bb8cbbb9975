package replica

import (
	"context"
	"log/slog"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/cluster/disk"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/cluster/liveness"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/cluster/nodeclock"
	"github.com/quorate/quorate/cluster/storage"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/deadletter"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/policy"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
	"github.com/quorate/quorate/quorumq"
)

// Limits of this package, beside those of Config.
const (
	// maxDeliverBytes bounds the bodies of one frame of deliveries, but not below one
	// message, and what one step of a worker holds in memory.
	maxDeliverBytes = 1 << 20
	// maxHeldBytes bounds the bodies in one answer to Resume; the rest follows as
	// deliveries.
	maxHeldBytes = 16 << 20
	// maxMailboxDeliveries bounds the deliveries that wait for a worker, per queue. What
	// comes above is read from the queue again later.
	maxMailboxDeliveries = 1 << 18
	// maxOpening bounds the groups that are opened or closed at the same time.
	maxOpening = 8
)

// Config is what a Host is made of. All of it is below the host, and there before it is.
type Config struct {
	Node   id.NodeID
	Epoch  id.Epoch
	Logger *slog.Logger
	Life   context.Context // ends when the node begins to stop

	Dir       *datadir.Dir
	Storage   *storage.Storage
	Clock     *nodeclock.Clock
	Disks     *disk.Board
	Views     *metadata.Views
	Policies  *policy.Matcher
	Liveness  *liveness.Manager
	Transport Transport
	Catalog   Catalog
	Events    *event.Journal

	// BodyCacheBytes bounds the bodies of messages that are kept in memory.
	BodyCacheBytes int64
	// HibernateAfter is how long a queue does nothing before its members are closed; 0: never.
	HibernateAfter time.Duration
	// MaxHeldBytes bounds the bodies in one answer to Resume; 0: maxHeldBytes.
	MaxHeldBytes int

	// ReachChanged returns a channel that is closed when a node is lost or found the next time.
	ReachChanged func() <-chan struct{}
	// Addressed is called with the address that the catalog has of a node.
	Addressed func(n id.NodeID, address string)
}

// Transport leads to other nodes, as *transport.Mux does.
type Transport interface {
	// Answer sends on the stream that a gateway opened; see transport.Mux.Answer.
	Answer(p transport.Peer, f *nodev1.Frame, unsent func()) error
	Connected(n id.NodeID) (id.Epoch, bool)
	Client(n id.NodeID) (nodev1.NodeClient, error)
	Raft(g id.GroupID) raft.Transport
	// Recheck looks again at who may be connected, since the catalog's nodes are others.
	Recheck()
}

// Catalog is the catalog to which a host proposes. Methods may be called concurrently.
type Catalog interface {
	// Propose puts a command through and waits until this node's view shows it.
	Propose(ctx context.Context, cmd catalog.Command) (catalog.Reply, error)
	// Registered returns the index of this start's registration, 0 before it: who has seen it
	// has seen all that the catalog had taken when the node started.
	Registered() uint64
}

// Above is what stands on a Host, is made of it, and is notified by it of what happens.
type Above struct {
	Gateway    Gateway
	Forwarders Forwarders
	// HandOver hands what this node leads to members that have room, as far as there are some,
	// before its members stop.
	HandOver func(context.Context)
}

// Gateway is the clients' end of queues on this node. Methods are called in order for each queue.
type Gateway interface {
	// Deliver takes deliveries for consumers of this node, in order. It may block.
	Deliver(q id.QueueUID, ds []traffic.Delivery)
	// Notice takes what a queue notifies one of its consumers of.
	Notice(q id.QueueUID, n quorumq.Notice)
	// LeaderChanged reports who leads a queue now; "": nobody.
	LeaderChanged(q id.QueueUID, leader id.NodeID)
	// QueueDrainDeletes reports that a queue is emptied for its deletion.
	QueueDrainDeletes(q id.QueueUID)
	// QueueGone reports that a queue is no more.
	QueueGone(q id.QueueUID)
	// Followed is called with the view that was followed, after the reports on all its queues.
	Followed(v *catalog.View)
}

// Forwarders forward the dead letters of the queues that this node leads, term by term. Calls for one
// queue are in order, and none blocks.
type Forwarders interface {
	// Leading begins a term.
	Leading(q deadletter.Source)
	// Ceased ends a term.
	Ceased(q deadletter.Source)
	// Backlog reports that a queue's backlog has news (DL-22).
	Backlog(q deadletter.Source)
	// Copies sends at-most-once dead letters (DL-11). The slice is handed over.
	Copies(q deadletter.Source, d []quorumq.Discarded)
	// Purging calls then once nothing of the backlog leaves any more, with how many dead letters have
	// arrived or may have, and release once the purge was answered.
	Purging(q deadletter.Source, then func(arrived uint64, release func()))
}
