// Package broker holds the use cases of a message broker, neutral of any protocol:
// declare, publish, consume, get, settle, administer, and the dead-letter forwarders of
// the queues that this node leads. Listeners translate; they see only this package and
// package message.
//
// A Broker is made before the cluster, which calls it back, and is completed by Attach:
//
//	b := broker.New(broker.Config{...})
//	c, err := cluster.Start(ctx, cluster.Config{Leaders: b, QueueConfig: b.QueueConfig, ...})
//	b.Attach(c)
//
// Everything may be called at any time and concurrently; before Attach it answers
// Unavailable. Errors are *Error, or the error of the caller's context.
package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/access"
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/deadletter"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/lograte"
	"github.com/quorate/quorate/message"
	"github.com/quorate/quorate/policy"
)

// Config bounds a Broker. Zero values are the defaults.
type Config struct {
	// MaxBodyBytes bounds the body of a message (MSG-2); 0: 16 MiB, at most 512 MiB.
	MaxBodyBytes int
	// DeliveryBufferBytes bounds the deliveries that a client does not take; 0: 16 MiB.
	DeliveryBufferBytes int64
	// GroupSize is how many members a queue gets that asks for no number; 0: 3.
	GroupSize int
	// Authenticate asks who calls: what comes from nobody is refused.
	Authenticate bool
	// DefaultUser and DefaultPassword are made in a fresh cluster (VH-1); "": guest, guest.
	DefaultUser, DefaultPassword string
	// LoopbackUsers may log in from this host alone.
	LoopbackUsers []string
	// Backends returns whom to ask who somebody is, in their order, with own, the users of the
	// catalog, among them or not; nil: own alone.
	Backends func(own access.Backend) []access.Backend
	// HostToken logs in from this host, on this node alone, as an administrator, if it is not
	// empty: see NewHostToken.
	HostToken string
	// Definitions is imported when the node starts, before the default user is made.
	Definitions BootImport
	// ConnectionTimeout is for how long a node must be out of reach before its clients'
	// connections are taken for ended; 0: 10 s.
	ConnectionTimeout time.Duration
	// RelaxedTypeCheck takes the types quorum and classic for equal when a queue is declared
	// again.
	RelaxedTypeCheck bool
	// DeadLetter bounds the forwarders.
	DeadLetter deadletter.Config
	Logger     *slog.Logger // nil: nothing is logged
}

// DefaultVHost is the vhost that exists from the start (VH-1).
const DefaultVHost = catalog.DefaultVHost

// DefaultGroupSize is the number of members of a queue that asks for none (Q-2 table).
const DefaultGroupSize = 3

// Validate returns all faults at once.
func (c *Config) Validate() error {
	var errs []error
	if c.MaxBodyBytes < 0 || c.MaxBodyBytes > message.MaxBodyBytes {
		errs = append(errs, fmt.Errorf("broker: MaxBodyBytes = %d: want 0 (default) to %d", c.MaxBodyBytes, message.MaxBodyBytes))
	}
	if c.DeliveryBufferBytes < 0 {
		errs = append(errs, fmt.Errorf("broker: DeliveryBufferBytes = %d: want 0 (default) or more", c.DeliveryBufferBytes))
	}
	if c.GroupSize < 0 || c.GroupSize > catalog.MaxMembers {
		errs = append(errs, fmt.Errorf("broker: GroupSize = %d: want 0 (default) to %d", c.GroupSize, catalog.MaxMembers))
	}
	if c.ConnectionTimeout < 0 {
		errs = append(errs, fmt.Errorf("broker: ConnectionTimeout = %v: want 0 (default) or more", c.ConnectionTimeout))
	}
	return errors.Join(append(errs, c.Definitions.validate(), c.DeadLetter.Validate())...)
}

// Broker is one node's broker. All methods may be called concurrently.
type Broker struct {
	cfg     Config
	log     *slog.Logger
	cluster atomic.Pointer[cluster.Cluster]
	view    func() *catalog.View // nil view before Attach
	open    func(id.QueueUID) (enqueuer, error)
	leads   func(id.QueueUID) bool // whether this node leads a queue
	// alternate returns an exchange's alternate exchange (EX-12).
	alternate   func(*catalog.View, *catalog.Exchange) (string, bool)
	policies    policy.Book
	grants      grants
	logins      *logins
	chain       *access.Chain
	connections *connections
	consumers   *consumers
	imported    atomic.Bool     // the definitions of the configuration
	founded     atomic.Bool     // somebody can log in, if that is asked for
	life        context.Context // ends with Close
	end         context.CancelFunc
	running     sync.WaitGroup

	publishes sync.Pool // *publishing
	handles   handles
	counters  counters
	audit     *audit
	buffers   cluster.BufferStats
	leaders   leaders
	alarms    alarms
	reach     *reach
	quotas    *quotas
	// unknownLines bounds what the log tells of unknown arguments.
	unknownLines lograte.Lines
}

// New returns a broker that waits for its cluster. The Config must be valid.
func New(c Config) *Broker {
	if c.MaxBodyBytes == 0 {
		c.MaxBodyBytes = message.DefaultMaxBodyBytes
	}
	if c.DeliveryBufferBytes == 0 {
		c.DeliveryBufferBytes = DefaultDeliveryBufferBytes
	}
	if c.GroupSize == 0 {
		c.GroupSize = DefaultGroupSize
	}
	if c.ConnectionTimeout == 0 {
		c.ConnectionTimeout = DefaultConnectionTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.DefaultUser == "" {
		c.DefaultUser, c.DefaultPassword = DefaultUser, DefaultPassword
	}
	b := &Broker{cfg: c, log: c.Logger, logins: newLogins(), connections: newConnections(), consumers: newConsumers(), audit: newAudit()}
	backends := []access.Backend{ownUsers{b}}
	if c.Backends != nil {
		backends = c.Backends(ownUsers{b})
	}
	b.chain = access.NewChain(backends...)
	b.grants.budgets.lines.Burst, b.grants.budgets.lines.Every = SlowMatchLines, SlowMatchLineEvery
	b.unknownLines.Burst, b.unknownLines.Every = UnknownArgumentLines, UnknownArgumentEvery
	b.life, b.end = context.WithCancel(context.Background())
	b.view = b.clusterView
	b.open = b.clusterQueue
	b.leads = b.clusterLeads
	b.publishes.New = func() any { return newPublishing(b) }
	b.policies.Warn = func(vhost string, err error) {
		b.log.Warn("a policy's pattern takes too long", "vhost", vhost, "error", err)
	}
	b.alternate = b.policies.AlternateExchange
	b.leaders.led = make(map[id.QueueUID]*leading)
	b.reach = newReach()
	b.quotas = newQuotas(b)
	return b
}

// Attach completes the broker with the cluster whose Leaders it is.
func (b *Broker) Attach(c *cluster.Cluster) {
	b.cluster.Store(c)
	b.leaders.attached(b)
	b.running.Go(func() { b.endOwned(b.life, c) })
	b.running.Go(func() { b.endConnections(b.life, c) })
	b.running.Go(func() { b.watchReach(b.life, c) })
	b.running.Go(func() { b.quotas.exchange(b.life, c) })
	b.running.Go(func() { b.upgradeHashes(b.life) })
	b.running.Go(func() { b.tellJoined(b.life, c) })
	b.running.Go(func() {
		if b.cfg.Definitions.Document != nil {
			b.importAtStart(b.life)
		}
		if b.cfg.Authenticate {
			b.found(b.life)
		}
	})
}

// Close ends the forwarders; consumers and publishes end with the cluster.
func (b *Broker) Close() {
	b.end()
	b.running.Wait()
	b.leaders.close()
}

// Ready returns nil when this node can serve clients, else what is missing.
func (b *Broker) Ready() error {
	c := b.cluster.Load()
	switch {
	case c == nil:
		return errors.New("broker: the node is starting")
	case c.Draining():
		return errors.New("broker: the node is drained; use another node")
	}
	err := c.Ready()
	reach := c.Reach()
	switch {
	case err != nil:
		return err
	case reach.CutOff >= CutOffUnready:
		return errors.New("broker: " + describeReach(reach))
	case b.cfg.Definitions.Document != nil && !b.imported.Load():
		return errors.New("broker: the definitions of the configuration are being imported")
	}
	return b.Serves()
}

// MaxBodyBytes returns the limit of a message's body (MSG-2).
func (b *Broker) MaxBodyBytes() int { return b.cfg.MaxBodyBytes }

// attachedCluster returns the cluster, or that the node is starting.
func (b *Broker) attachedCluster() (*cluster.Cluster, error) {
	if c := b.cluster.Load(); c != nil {
		return c, nil
	}
	return nil, errStarting()
}

func errStarting() *Error {
	return &Error{
		Class: Unavailable, Kind: "node", RetryAfter: retryAfter,
		Reason: "the node is starting; retry, or use another node",
	}
}

// servingView returns this node's view for what a client asks.
func (b *Broker) servingView() (*catalog.View, error) {
	v := b.view()
	if v == nil {
		return nil, errStarting()
	}
	if c := b.cluster.Load(); c != nil && !c.Serves() { // nil: in tests of this package
		return nil, errNotServing(hindrance(c))
	}
	return v, nil
}

// Admit says whether new streams may begin on this node: not while it is drained, or cut off.
func (b *Broker) Admit() error {
	c, err := b.attachedCluster()
	if err != nil {
		return err
	}
	if c.Draining() {
		return &Error{Class: Unavailable, Kind: "node", RetryAfter: retryAfter, Reason: "this node is drained; use another node"}
	}
	if b.cutOff() != "" {
		return b.ErrCutOff()
	}
	return nil
}

func (b *Broker) clusterView() *catalog.View {
	if c := b.cluster.Load(); c != nil {
		return c.View()
	}
	return nil
}

func (b *Broker) clusterLeads(uid id.QueueUID) bool {
	c := b.cluster.Load()
	return c != nil && c.Leads(uid)
}

func (b *Broker) clusterQueue(uid id.QueueUID) (enqueuer, error) {
	c, err := b.attachedCluster()
	if err != nil {
		return nil, err
	}
	return c.Queue(uid)
}
