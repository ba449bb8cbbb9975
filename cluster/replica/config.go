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
	"github.com/quorate/quorate/cluster/export"
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

// Limits of this package, in addition to those of Config.
const (
	// maxDeliverBytes limits the bodies in one frame of deliveries, and what one step of a worker
	// holds in memory. A single larger message is allowed.
	maxDeliverBytes = 1 << 20
	// maxHeldBytes limits the bodies in one answer to Resume; the rest follows as deliveries.
	maxHeldBytes = 16 << 20
	// maxMailboxDeliveries limits the deliveries of one queue that wait for a worker. Those beyond
	// it are read from the queue again later.
	maxMailboxDeliveries = 1 << 18
	// maxOpening limits the groups that are opened or closed at the same time.
	maxOpening = 8
	// closeDrain is how long Close waits for what is under way in the groups, for all of them together.
	closeDrain = 2 * time.Second
)

// Config has the settings of a Host, and the parts below the host, which must exist before it.
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
	// Pace limits how fast members are exported.
	Pace *export.Pacer

	// BodyCacheBytes limits the bodies of messages that are kept in memory.
	BodyCacheBytes int64
	// HibernateAfter is how long a queue must have been idle before its members are closed; 0:
	// never.
	HibernateAfter time.Duration
	// MaxHeldBytes limits the bodies in one answer to Resume; 0: maxHeldBytes.
	MaxHeldBytes int

	// ReachChanged returns a channel that is closed when the next node is lost or found.
	ReachChanged func() <-chan struct{}
	// Addressed is called with the address that a node has in the catalog.
	Addressed func(n id.NodeID, address string)
}

// Transport sends to other nodes, as *transport.Mux does.
type Transport interface {
	// Answer sends on a stream that a gateway opened; see transport.Mux.Answer.
	Answer(p transport.Peer, f *nodev1.Frame, unsent func()) error
	Connected(n id.NodeID) (id.Epoch, bool)
	Client(n id.NodeID) (nodev1.NodeClient, error)
	Raft(g id.GroupID) raft.Transport
	// Recheck checks again which nodes may be connected, because the nodes in the catalog have
	// changed.
	Recheck()
}

// Catalog is the catalog to which a host proposes. Methods may be called concurrently.
type Catalog interface {
	// Propose proposes a command and waits until this node's view shows its effect.
	Propose(ctx context.Context, cmd catalog.Command) (catalog.Reply, error)
	// Registered returns the index in the catalog at which this start of the node was registered, 0
	// before that. A view from that index on shows everything that the catalog had committed when
	// the node started.
	Registered() uint64
	// Serves reports whether this node's view was confirmed in this life.
	Serves() bool
	// Confirm returns when this node's view shows all that the catalog had committed when Confirm
	// was called. It fails if that takes too long.
	Confirm(ctx context.Context) error
}

// Above holds what uses a Host. It is made after the host, and the host notifies it of what
// happens.
type Above struct {
	Gateway    Gateway
	Forwarders Forwarders
	// HandOver transfers what this node leads to members that have room, as far as there are any,
	// before the node's own members stop.
	HandOver func(context.Context)
}

// Gateway is the clients' end of queues on this node. Methods are called in order for each queue.
type Gateway interface {
	// Deliver receives deliveries for consumers of this node, in order. It may block.
	Deliver(q id.QueueUID, ds []traffic.Delivery)
	// Notice receives a notice of a queue to one of its consumers.
	Notice(q id.QueueUID, n quorumq.Notice)
	// LeaderChanged reports the leader of a queue; "" if it has none.
	LeaderChanged(q id.QueueUID, leader id.NodeID)
	// QueueDrainDeletes reports that a queue is being emptied before it is deleted.
	QueueDrainDeletes(q id.QueueUID)
	// QueueGone reports that a queue no longer exists.
	QueueGone(q id.QueueUID)
	// Followed is called after the reports about all queues of a view, with that view.
	Followed(v *catalog.View)
}

// Forwarders forward the dead letters of the queues that this node leads, separately for each term.
// Calls for one queue come in order. None of them blocks.
type Forwarders interface {
	// Leading begins a term.
	Leading(q deadletter.Source)
	// Ceased ends a term.
	Ceased(q deadletter.Source)
	// Backlog reports that the backlog of a queue has changed (DL-22).
	Backlog(q deadletter.Source)
	// Copies sends at-most-once dead letters (DL-11). The slice belongs to the callee.
	Copies(q deadletter.Source, d []quorumq.Discarded)
	// Copying reports whether at-most-once dead letters wait to be sent; the end of the term would lose them (DL-10).
	Copying(q deadletter.Source) bool
	// When messages of the backlog have stopped leaving, Purging calls then with the number of dead letters that have
	// arrived or may have; release is called when the purge was answered.
	Purging(q deadletter.Source, then func(arrived uint64, release func()))
}
