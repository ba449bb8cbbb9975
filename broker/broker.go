// Package broker holds the use cases of a message broker, independent of any protocol: declare, publish, consume, get,
// settle, administer. Listeners translate between their protocol and this package. All that they use of the broker is
// in this package, in the packages below its path, and in package message.
//
// A Broker is built on a node's part of a cluster, which must have started. All methods may be called at any time and
// concurrently. Errors are *failure.Error, or the error of the caller's context.
//
// # Reading order
//
// Each file uses what stands above it.
//
//   - Parts of a Broker: alarm.go, buffer.go, declaration_error.go, unknown.go, handles.go, unit.go, joined.go.
//   - The Broker and its figures: broker.go, counters.go, figures.go.
//   - Queues, exchanges and bindings: queue.go, redeclare.go, declare.go, exchange.go, binding.go.
//   - Publishing: delay.go, sender.go, publication.go, publish_check.go, publish_delay.go, reply.go, route.go,
//     publish_trace.go, publish.go, held.go.
//   - Consuming: delivery.go, unacked.go, annotations.go, arrivals.go, activity.go, consume.go, consume_trace.go, credit.go,
//     consumer.go, consumers.go, consume_replies.go.
//   - Settling: decision.go, settle.go, get.go, transact.go.
//   - Looking at messages in queues: peek.go.
package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/quorate/quorate/access"
	"github.com/quorate/quorate/broker/administration"
	"github.com/quorate/quorate/broker/audit"
	"github.com/quorate/quorate/broker/backups"
	"github.com/quorate/quorate/broker/connections"
	"github.com/quorate/quorate/broker/explain"
	"github.com/quorate/quorate/broker/identity"
	"github.com/quorate/quorate/broker/imports"
	"github.com/quorate/quorate/broker/limits"
	"github.com/quorate/quorate/broker/messages"
	"github.com/quorate/quorate/broker/operators"
	"github.com/quorate/quorate/broker/permission"
	"github.com/quorate/quorate/broker/queues"
	"github.com/quorate/quorate/broker/serving"
	"github.com/quorate/quorate/broker/settletoken"
	"github.com/quorate/quorate/broker/watch"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/clients"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/cluster/peer"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
	"github.com/quorate/quorate/tracing"
)

// Config configures a Broker. A zero value stands for the default.
type Config struct {
	// MaxBodyBytes limits the body of a message (MSG-2); 0: 16 MiB, at most 512 MiB.
	MaxBodyBytes int
	// DeliveryBufferBytes limits the deliveries that wait on this node until their client takes them; 0: 16 MiB.
	DeliveryBufferBytes int64
	// Authenticate requires clients to log in: calls without an identity are refused.
	Authenticate bool
	// DefaultUser and DefaultPassword are those of the user that a new cluster starts with (VH-1); "": guest, guest.
	DefaultUser, DefaultPassword string
	// LoopbackUsers may log in only from this host.
	LoopbackUsers []string
	// Backends returns the backends that logins ask, in order. own is the backend for the users of the catalog; the
	// result may contain it or not. nil: own alone.
	Backends func(own access.Backend) []access.Backend
	// HostToken, if not empty, is a token with which a client on this host logs in as an administrator of this node
	// alone; see identity.NewHostToken.
	HostToken string
	// Hashing is called before a password is hashed, with the number of passwords that are then being hashed. Each
	// keeps a processor busy for tens of milliseconds. nil: nothing is called.
	Hashing func(passwords int)
	// Definitions are imported when the node starts. The user guest is created only if they have none.
	Definitions imports.AtStart
	// ConnectionTimeout is how long a node must be unreachable before its clients' connections count as ended; 0:
	// 10 s.
	ConnectionTimeout time.Duration
	// RelaxedTypeCheck treats the types quorum and classic as equal when a queue is declared again.
	RelaxedTypeCheck bool
	Tracer           *tracing.Tracer // nil: nothing is traced
	Logger           *slog.Logger    // nil: nothing is logged
}

// DefaultVHost is the vhost that exists from the start (VH-1).
const DefaultVHost = catalog.DefaultVHost

// Validate returns all faults at once.
func (c *Config) Validate() error {
	var errs []error
	if c.MaxBodyBytes < 0 || c.MaxBodyBytes > message.MaxBodyBytes {
		errs = append(errs, fmt.Errorf("broker: MaxBodyBytes = %d: want 0 (default) to %d", c.MaxBodyBytes, message.MaxBodyBytes))
	}
	if c.DeliveryBufferBytes < 0 {
		errs = append(errs, fmt.Errorf("broker: DeliveryBufferBytes = %d: want 0 (default) or more", c.DeliveryBufferBytes))
	}
	if c.ConnectionTimeout < 0 {
		errs = append(errs, fmt.Errorf("broker: ConnectionTimeout = %v: want 0 (default) or more", c.ConnectionTimeout))
	}
	return errors.Join(append(errs, c.Definitions.Validate())...)
}

// setDefaults replaces zero values with the defaults.
func (c *Config) setDefaults() {
	if c.MaxBodyBytes == 0 {
		c.MaxBodyBytes = message.DefaultMaxBodyBytes
	}
	if c.DeliveryBufferBytes == 0 {
		c.DeliveryBufferBytes = DefaultDeliveryBufferBytes
	}
	if c.ConnectionTimeout == 0 {
		c.ConnectionTimeout = connections.DefaultConnectionTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.DefaultUser == "" {
		c.DefaultUser, c.DefaultPassword = administration.DefaultUser, administration.DefaultPassword
	}
}

// below is what a Broker is built on: a node's part of a cluster, or what tests put in its place.
type below struct {
	cluster *cluster.Cluster
	node    id.NodeID
	server  serving.Cluster
	catalog serving.Catalog
	drains  serving.Unloader
	// group is this node's member of the catalog's group. everywhere asks all nodes what their clients have open.
	group      *metadata.Group
	everywhere *peer.Clients
	events     *peer.Events
	view       func() *catalog.View
	open       func(id.QueueUID) (enqueuer, error)
	leads      func(id.QueueUID) bool // whether this node leads a queue
	keep       func(event.AuditList, event.Event)
	// emitQuota emits an event when a quota is reached, and when it no longer is.
	emitQuota func(event.Event)
	now       func() time.Time // the time of the cluster, on which nodes agree even if their wall clocks differ
	// clients is the registry of this node's clients, with the counters of what they do.
	clients  *clients.Registry
	policies *policy.Matcher
}

// Broker is one node's broker. All methods may be called concurrently.
type Broker struct {
	below
	cfg    Config
	log    *slog.Logger
	tracer *tracing.Tracer // nil: nothing is traced

	// The parts that callers use directly. They never change.
	Serving        *serving.Node
	Logins         *identity.Logins
	Permissions    *permission.Permissions
	Audit          *audit.Log
	Administration *administration.Administration
	Limits         *limits.Limits
	Connections    *connections.Connections
	Operators      *operators.Operators
	Definitions    *imports.Definitions
	Backups        *backups.Backups
	Events         *watch.Events
	Queues         *queues.Queues
	Messages       *messages.Messages
	Explain        *explain.Explainer
	Buffers        *Buffers
	Alarms         *Alarms

	commands     *audit.Commands
	settleTokens *settletoken.Tokens
	life         context.Context // ends with Close
	end          context.CancelFunc
	running      sync.WaitGroup

	// alternate returns an exchange's alternate exchange (EX-12).
	alternate func(*catalog.View, *catalog.Exchange) (string, bool)
	publishes sync.Pool // *publishing
	handles   *handles
	unknown   *unknownArguments
}

// New returns the broker of a node's part of a cluster. That part must outlive the Broker, and the Config must be
// valid.
func New(part *cluster.Cluster, c Config) *Broker {
	self, _ := part.Self()
	b := newBroker(c, below{
		cluster: part, node: self, server: part, catalog: part.Catalog(), drains: part.Unloader(),
		group: part.Catalog(), everywhere: part.AllClients(), events: part.Events(), view: part.View, leads: part.Leads, keep: part.Audit, emitQuota: part.EmitQuota,
		now: part.Now, clients: part.Clients(), policies: part.Policies(),
		open: func(uid id.QueueUID) (enqueuer, error) { return part.Gateway().Queue(uid) },
	})
	b.run()
	return b
}

// newBroker returns a broker whose background work has not started; tests need none.
func newBroker(c Config, x below) *Broker {
	c.setDefaults()
	b := &Broker{below: x, cfg: c, log: c.Logger, tracer: c.Tracer, alternate: x.policies.AlternateExchange}
	b.life, b.end = context.WithCancel(context.Background())
	b.makeParts()
	return b
}

// makeParts creates the parts in order: each may use those created before it.
func (b *Broker) makeParts() {
	c, x := &b.cfg, &b.below
	b.Serving = serving.New(serving.Config{
		Node: x.server, Catalog: x.catalog, Unloader: x.drains, View: x.view, Clients: x.clients, Authenticate: c.Authenticate, Log: b.log,
	})
	b.commands = audit.NewCommands(x.group, x.view)
	b.Logins = identity.New(identity.Config{
		Authenticate: c.Authenticate, LoopbackUsers: c.LoopbackUsers, Backends: c.Backends, HostToken: c.HostToken, Hashing: c.Hashing,
		Node: x.node, View: x.view, Now: x.now, Unseen: &x.clients.Counters.LoginsUnseen,
		Certainty: b.Serving, Commands: b.commands, Log: b.log,
	})
	b.Permissions = permission.New(permission.Config{
		View: x.view, Logins: b.Logins, Timeouts: &x.clients.Counters.PermissionTimeouts, Log: b.log,
	})
	b.Audit = audit.New(audit.Config{
		Node: x.node, Who: b.Logins.Caller, Keep: x.keep, Refused: &x.clients.Counters.LoginsRefused, Tried: x.clients.Logins.Count, Log: b.log,
	})
	b.Administration = administration.New(administration.Config{
		DefaultUser: c.DefaultUser, DefaultPassword: c.DefaultPassword, View: x.view, Policies: x.policies,
		Serving: b.Serving, Commands: b.commands, Logins: b.Logins, Permissions: b.Permissions, Audit: b.Audit, Log: b.log,
	})
	b.settleTokens = settletoken.New(settletoken.Config{
		Node: x.cluster, View: x.view, Now: x.now, Commands: b.commands, Logins: b.Logins, Permissions: b.Permissions,
	})
	b.Limits = limits.New(limits.Config{
		Node: x.cluster, Everywhere: x.everywhere, View: x.view, Clients: x.clients, Policies: x.policies,
		Serving: b.Serving, Logins: b.Logins, Permissions: b.Permissions, Emit: x.emitQuota,
	})
	b.handles = newHandles(x.open, x.view, b.Limits.QueueRated)
	b.unknown = newUnknownArguments(&x.clients.Counters.UnknownArguments, b.log)
	b.Buffers = &Buffers{limit: c.DeliveryBufferBytes}
	b.Alarms = &Alarms{raised: &x.clients.Counters.PublishersHeld, log: b.log}
	b.Events = watch.New(watch.Config{Everywhere: x.events, Serving: b.Serving, Logins: b.Logins, Permissions: b.Permissions})
	b.Definitions = imports.New(imports.Config{
		Cluster: x.cluster, Serving: b.Serving, Logins: b.Logins, Audit: b.Audit, Commands: b.commands, AtStart: c.Definitions, Log: b.log,
	})
	b.Backups = backups.New(backups.Config{Cluster: x.cluster, Serving: b.Serving, MaxBodyBytes: c.MaxBodyBytes})
	b.Operators = operators.New(x.cluster, b.Serving)
	b.Connections = connections.New(connections.Config{
		Node: x.cluster, Catalog: x.group, Everywhere: x.everywhere, View: x.view, Clients: x.clients, Policies: x.policies, Serving: b.Serving, Logins: b.Logins,
		Permissions: b.Permissions, Limits: b.Limits, Timeout: c.ConnectionTimeout, Log: b.log,
	})
	b.Queues = queues.New(queues.Config{
		Life: b.life, Cluster: x.cluster, View: x.view, Now: x.now, Policies: x.policies, Losses: x.cluster.LostMembers,
		Serving: b.Serving, Permissions: b.Permissions, Connections: b.Connections,
	})
	b.Messages = messages.New(messages.Config{
		Cluster: x.cluster, Alternate: b.alternate, Serving: b.Serving, Logins: b.Logins, Permissions: b.Permissions,
		Operators: b.Operators, Queues: b.Queues,
	})
	b.Explain = explain.New(explain.Config{
		Cluster: x.cluster, Leads: x.leads, Alternate: b.alternate, Policies: x.policies,
		Serving: b.Serving, Permissions: b.Permissions, Queues: b.Queues,
	})
}

// run starts the background work, which runs until Close.
func (b *Broker) run() {
	c := b.cluster
	b.running.Go(func() { b.Connections.EndOwned(b.life) })
	b.running.Go(func() { b.Serving.EndConnections(b.life) })
	b.running.Go(func() { b.Serving.WatchReach(b.life) })
	b.running.Go(func() { b.Limits.Exchange(b.life) })
	b.running.Go(func() { b.Administration.UpgradeHashes(b.life) })
	b.running.Go(func() { recordJoined(b.life, c, b.Audit) })
	b.running.Go(func() { b.begin(b.life) })
}

// begin creates the default user of a new cluster and what the configuration's document defines. A default user that
// the settings name is created before the document's users: whoever set it must be able to log in, whatever the document
// has. The user guest is for clusters that would have no user otherwise.
func (b *Broker) begin(ctx context.Context) {
	named := b.cfg.Authenticate && b.cfg.DefaultUser != administration.DefaultUser
	if named {
		b.Administration.Found(ctx, false)
	}
	definitions := b.Definitions.AtStart()
	definitions.First(ctx)
	if b.cfg.Authenticate && !named {
		b.Administration.Found(ctx, definitions.UsersWait())
	}
	definitions.Rest(ctx)
}

// Close ends the background work. Consumers and publishes end with the cluster.
func (b *Broker) Close() {
	b.end()
	b.running.Wait()
}

// Ready returns nil if this node can serve clients, else an error with what is missing.
func (b *Broker) Ready() error {
	c := b.cluster
	if c.Unloader().Draining() {
		return errors.New("broker: the node is drained; use another node")
	}
	err := c.Ready()
	reach := c.Reach()
	switch {
	case err != nil:
		return err
	case reach.CutOff >= serving.CutOffUnready:
		return errors.New("broker: " + serving.DescribeReach(reach))
	case b.Definitions.Pending():
		return errors.New("broker: the definitions of the configuration are being imported")
	}
	return b.Serving.Serves()
}

// MaxBodyBytes returns the limit for the body of a message (MSG-2).
func (b *Broker) MaxBodyBytes() int { return b.cfg.MaxBodyBytes }
