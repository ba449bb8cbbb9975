package peers

import (
	"context"
	"fmt"
	"time"
)

// serverCount is the number of servers of each system, and of replicas of each queue.
const serverCount = 3

// system is a broker that can be measured.
type system interface {
	// name is the name in the table.
	name() string
	// about returns the version, and the guarantees that matter for a comparison.
	about() string
	// start runs three servers with their data in dir. Call stop once, also after an error.
	start(ctx context.Context, dir string) error
	stop() error
	// roots returns the servers' processes; their descendants count as well.
	roots() []int
	// session connects to server number i. If ctx ends first, the connection is cut.
	session(ctx context.Context, i int) (session, error)
}

// session is a client's connection. One goroutine at a time uses it, but other goroutines may use
// what its methods return.
type session interface {
	// declare declares a replicated, durable queue, and remove deletes it.
	declare(ctx context.Context, queue string) error
	remove(ctx context.Context, queue string) error
	// publisher returns a publisher. It calls confirmed for each message, with the time given to
	// publish, from any one goroutine.
	publisher(ctx context.Context, window int, confirmed func(at int64)) (publisher, error)
	// consume calls received for each body, from several goroutines, and then acks the message, until
	// the session ends.
	consume(ctx context.Context, queues []string, prefetch int, received func(consumer int, body []byte)) error
	// lost gets the reason if the connection ends other than by close.
	lost() <-chan error
	close() error
}

// publisher sends messages.
type publisher interface {
	// publish publishes a body without waiting for its confirm, which brings back at.
	publish(ctx context.Context, queue string, body []byte, at int64) error
}

// missing means that a system cannot be measured on this machine.
type missing struct{ name, reason string }

func (m missing) Error() string { return fmt.Sprintf("%s is skipped: %s", m.name, m.reason) }

// Bounds of servers.
const (
	startTimeout = 90 * time.Second
	pollEvery    = 50 * time.Millisecond
)
