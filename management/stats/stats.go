// Package stats collects the figures of the whole cluster for its viewers: of all queues and exchanges, of the nodes,
// and how fast they change. All viewers share what is collected. While nobody asks, nothing is collected.
//
// # Reading order
//
//   - What is collected: stats.go, sample.go.
//   - How it is shared: shared.go.
//   - The arithmetic: rate.go, churn.go.
//   - The busiest queues: top.go.
//   - The rounds: queues.go, exchanges.go, connections.go, cluster.go.
package stats

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/quorate/quorate/broker"
	"github.com/quorate/quorate/broker/identity"
)

const (
	// FreshFor is how old the figures of the queues and exchanges may be, and the counts of objects.
	FreshFor = 5 * time.Second
	// SampleEvery is how old a sample of the nodes may be, and how far apart two are while somebody watches.
	SampleEvery = time.Second
	// HistoryFor is how old the oldest sample of History may be.
	HistoryFor = 10 * time.Minute
	// RateWithin is how far apart two samples may be whose difference is shown as a rate. Programs that ask once a minute get
	// the mean of that minute, also if one of their questions is late; a longer time says nothing about the present.
	RateWithin = 90 * time.Second
	// roundTimeout bounds a round of questions to all nodes.
	roundTimeout = 5 * time.Second
)

// Config describes a collector.
type Config struct {
	Broker *broker.Broker // required
	Logger *slog.Logger   // nil: nothing is logged
}

// Collector has the newest figures. All methods may be called concurrently. It checks no permission: whoever shows its
// figures does.
type Collector struct {
	Config
	end       context.CancelFunc
	queues    shared[*Queues]
	exchanges shared[*Exchanges]
	objects   shared[*inventory]
	cluster   shared[*Cluster]

	mu      sync.Mutex
	history []*Cluster // oldest first
}

// New returns a collector, which has no figures yet.
func New(c Config) *Collector {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	life, end := context.WithCancel(identity.WithIdentity(context.Background(), identity.Itself()))
	out := &Collector{Config: c, end: end}
	out.queues = shared[*Queues]{life: life, fresh: FreshFor, collect: out.collectQueues}
	out.exchanges = shared[*Exchanges]{life: life, fresh: FreshFor, collect: out.collectExchanges}
	out.objects = shared[*inventory]{life: life, fresh: FreshFor, collect: out.collectInventory}
	out.cluster = shared[*Cluster]{life: life, fresh: SampleEvery, collect: out.collectCluster}
	return out
}

// Close ends what is under way and waits for it. Calls fail from then on.
func (c *Collector) Close() {
	c.end()
	c.cluster.close() // first, since it may wait for the others
	c.objects.close()
	c.exchanges.close()
	c.queues.close()
}

// Queues returns the figures of all queues that have a leader, at most FreshFor old. However many ask, each node is asked
// once.
func (c *Collector) Queues(ctx context.Context) (*Queues, error) { return c.queues.get(ctx) }

// Exchanges returns the counts of all exchanges that something was published to, at most FreshFor old. However many ask, each
// node is asked once.
func (c *Collector) Exchanges(ctx context.Context) (*Exchanges, error) { return c.exchanges.get(ctx) }

// Cluster returns the newest sample of the nodes, at most SampleEvery old.
func (c *Collector) Cluster(ctx context.Context) (*Cluster, error) { return c.cluster.get(ctx) }

// Watch calls report with a sample at once and then with each new one, which all watchers share, until ctx ends or report
// fails. It returns the reason. A round that fails is left out, since who watches must not lose its place for it.
func (c *Collector) Watch(ctx context.Context, report func(*Cluster) error) error {
	for {
		next := time.Now()
		s, err := c.Cluster(ctx)
		switch {
		case err == nil:
			next = s.At
			err = report(s)
		case ctx.Err() == nil && !errors.Is(err, errClosed):
			c.Logger.Debug("a sample of the nodes could not be taken", "error", err)
			err = nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(next.Add(SampleEvery))):
		}
	}
}
