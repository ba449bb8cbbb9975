// Package cluster makes one node part of a cluster: it hosts the node's members of Raft
// groups, knows who leads which group, and carries commands and deliveries between this
// node as gateway, for its own clients, and the hosts that lead.
package cluster

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/cluster/disk"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/cluster/export"
	"github.com/quorate/quorate/cluster/forwarding"
	"github.com/quorate/quorate/cluster/gateway"
	"github.com/quorate/quorate/cluster/gossip"
	"github.com/quorate/quorate/cluster/leader"
	"github.com/quorate/quorate/cluster/liveness"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/cluster/nodeclock"
	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/cluster/peer"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/cluster/storage"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/cluster/vitals"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/policy"
)

// Cluster is this node's part. All methods may be called concurrently.
type Cluster struct {
	cfg   Config // with defaults
	epoch id.Epoch
	log   *slog.Logger

	dir      *datadir.Dir
	clock    *nodeclock.Clock
	storage  *storage.Storage // nil until it is open
	disks    *disk.Board
	rooms    *disk.Rooms
	views    *metadata.Views
	mux      *transport.Mux
	wired    atomic.Pointer[transport.Mux] // mux, for logFailed, which may come before there is one
	members  *gossip.Members
	catalog  *metadata.Group
	host     *replica.Host
	hosted   atomic.Pointer[replica.Host] // host, for groupLost, which may come before there is one
	gateway  *gateway.Gateway
	clients  *clients.Registry
	stored   storedBytes
	sent     sentFigures
	vitals   *vitals.Vitals
	policies *policy.Matcher
	// forwarders forward the dead letters of the queues that this node leads.
	forwarders *forwarding.Forwarders
	liveness   *liveness.Manager // lets groups elect leaders

	leaders     *leader.Leaders
	changes     *membership.Changer
	changeSlots chan struct{} // of changes
	unloader    *membership.Unloader
	operator    *membership.Operator
	reconciler  *membership.Reconciler

	givenUp    *metadata.GivenUp
	judge      *metadata.Judge
	admission  *metadata.Admission
	reach      *reach
	links      *linking
	operations *operation.Registry
	peers      *peer.Peers
	everywhere *peer.Clients
	jobs       *peer.Operations
	pace       *export.Pacer
	watched    *peer.Events
	logs       *peer.Logs
	events     *event.Journal

	starting atomic.Pointer[StartProgress] // as last reported; never nil
	booted   atomic.Bool                   // all parts are there
	ctx      context.Context               // ends when Close begins
	stop     context.CancelFunc
	disked   context.Context // ends when nothing is written to the log any longer; until then its disk may hang
	undisk   context.CancelFunc
	loops    sync.WaitGroup
	marking  sync.WaitGroup // of keepMark, which must end before the catalog is given up

	closing  sync.Once
	closeErr error
}

// View returns the catalog as this node knows it.
func (c *Cluster) View() *catalog.View { return c.views.View() }

// Policies finds what is in force for queues, as this node does.
func (c *Cluster) Policies() *policy.Matcher { return c.policies }

// Clients returns what this node's clients have open.
func (c *Cluster) Clients() *clients.Registry { return c.clients }

// AllClients returns what the clients of all nodes have open.
func (c *Cluster) AllClients() *peer.Clients { return c.everywhere }

// Jobs returns the long jobs of all nodes, and starts those of this one.
func (c *Cluster) Jobs() *peer.Operations { return c.jobs }

// Logs returns the newest lines of the logs of all nodes.
func (c *Cluster) Logs() *peer.Logs { return c.logs }

// Events returns what has happened lately on all nodes, for those who watch.
func (c *Cluster) Events() *peer.Events { return c.watched }

// Gateway returns this node's ends of queues.
func (c *Cluster) Gateway() *gateway.Gateway { return c.gateway }

// Leaders asks the leaders of queues, wherever they are.
func (c *Cluster) Leaders() *leader.Leaders { return c.leaders }

// Operator carries out what operators ask for, and declares queues.
func (c *Cluster) Operator() *membership.Operator { return c.operator }

// Unloader takes off this node what it leads.
func (c *Cluster) Unloader() *membership.Unloader { return c.unloader }

// Reconciler keeps queues at their size, and their leaders even.
func (c *Cluster) Reconciler() *membership.Reconciler { return c.reconciler }

// Catalog returns this node's member of the catalog group: what changes the catalog, and reports whether
// this node may serve clients by its view.
func (c *Cluster) Catalog() *metadata.Group { return c.catalog }

// Self returns this node and which of its lives this process is.
func (c *Cluster) Self() (id.NodeID, id.Epoch) { return c.cfg.Node, c.epoch }

// Connected reports whether this node's peer connections to another node are up; true for this node itself.
func (c *Cluster) Connected(n id.NodeID) bool {
	_, up := c.mux.Connected(n)
	return up || n == c.cfg.Node
}

// ViewChanged returns a channel that is closed at the view's next change.
func (c *Cluster) ViewChanged() <-chan struct{} { return c.views.Next() }

// AwaitView returns when this node's view shows everything up to the index, or with ctx's
// error.
func (c *Cluster) AwaitView(ctx context.Context, index uint64) error {
	return c.views.Await(ctx, index)
}
