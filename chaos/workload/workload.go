// Package workload holds what clients do to a cluster while faults come: each workload has
// queues of its own and records all that its clients see, so that the right outcome of
// every message follows from the history.
package workload

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/chaos/history"
	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/client"
)

// World is where a workload runs.
type World struct {
	Cluster target.Cluster
	History *history.History
	// Client reaches all nodes; for declares, drains and looking.
	Client *client.Client
	// Prefix begins the names of all that the workload declares; VHost is where.
	Prefix, VHost string
	Seed          uint64
	// Rate is how many messages per second the workload publishes, about; all of its publishers
	// together.
	Rate int
	// Settle bounds the wait for answers, and for the draining, after publishing.
	Settle time.Duration
	// Changes is held while members of queues are changed: a fault that takes data away waits for that.
	Changes sync.Locker
	Log     func(format string, args ...any)
}

// Queue returns the name of a queue of the workload.
func (w *World) Queue(name string) string { return w.Prefix + "." + name }

// Workload is a part that clients play.
type Workload interface {
	// Prepare declares what the workload needs. The cluster is well.
	Prepare(ctx context.Context) error
	// Publish publishes until publishing ends, then waits for the answers. Consumers run as long
	// as ctx lasts.
	Publish(ctx, publishing context.Context) error
	// Drain waits until the queues are empty and records which are (history.Drained, Left).
	Drain(ctx context.Context) error
	// Leading returns the queue whose leader is hit.
	Leading() string
}

// Kind is a kind of workload.
type Kind struct {
	Name string
	Does string // one line
	// Protocols are those of its clients: grpc, amqp.
	Protocols []string
	// Rate is World.Rate unless the user says otherwise: so small that all kinds run side by side.
	Rate int
	New  func(w *World) Workload
}

// Kinds returns all kinds in order of their names.
func Kinds() []Kind {
	return []Kind{
		AtMostOnce(), Churn(), Crashes(), Delayed(), ExpiryChain(), Import(), Large(), LateConsumers(), Members(), NewQueues(),
		Priorities(), Producers(), Publish(), Redrive(), Resting(), Retry(), RetryLoop(), SingleActive(), Transactions(),
	}
}
