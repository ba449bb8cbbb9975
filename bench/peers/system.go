package peers

import (
	"context"
	"fmt"
	"time"
)

// serverCount is how many servers each system has, and how many replicas each queue.
const serverCount = 3

// system is a broker that can be measured.
type system interface {
	// name is what the table calls it.
	name() string
	// about tells the version, and what may be compared with what.
	about() string
	// start runs three servers with their data under dir. Stop is to be called once
	// also when it fails.
	start(ctx context.Context, dir string) error
	stop() error
	// roots are the servers' processes; their descendants count as well.
	roots() []int
	// session connects to server number i. If ctx ends first, the connection is cut.
	session(ctx context.Context, i int) (session, error)
}

// session is a client's connection. Each is used by one goroutine at a time, what it
// returns aside.
type session interface {
	// declare makes a replicated, durable queue, and remove deletes it.
	declare(ctx context.Context, queue string) error
	remove(ctx context.Context, queue string) error
	// publisher returns a publisher that calls confirmed for each message, with the time
	// that was given with it, from any one goroutine.
	publisher(ctx context.Context, window int, confirmed func(at int64)) (publisher, error)
	// consume calls received for each body that comes, from several goroutines, and
	// acks the message thereafter, until the session ends.
	consume(ctx context.Context, queues []string, prefetch int, received func(consumer int, body []byte)) error
	// lost gets why the connection ended, if that was not by close.
	lost() <-chan error
	close() error
}

// publisher sends messages.
type publisher interface {
	// publish sends a body without waiting for its confirm; at comes back with that.
	publish(ctx context.Context, queue string, body []byte, at int64) error
}

// missing says that a system cannot be measured here.
type missing struct{ name, reason string }

func (m missing) Error() string { return fmt.Sprintf("%s is skipped: %s", m.name, m.reason) }

// Bounds of servers.
const (
	startTimeout = 90 * time.Second
	pollEvery    = 50 * time.Millisecond
)
