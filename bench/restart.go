package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/wait"
)

// Bounds of the rows of restarts.
const (
	restartRounds = 5 // of each kind; the figures are the worst
	restTime      = 30 * time.Second
	restartQueue  = "restart"
	restartEvery  = 5 * time.Millisecond // from a confirm to the next message
	restartBytes  = 100                  // of a body
	settledAfter  = 20                   // confirms, after which publishing counts as continuing
)

// runRestarts measures nodes at rest and clients of nodes that are restarted, prints the table and stores the rows.
func runRestarts(ctx context.Context, o options) error {
	m := measurement{title: "Rest and restarts, three node processes", file: "restart", whole: !o.quick}
	m.parts = []measured{{"restart", func(ctx context.Context) ([]engineRow, error) { return restartRows(ctx, o) }}}
	return m.run(ctx, o)
}

// restartRows starts three nodes, leaves them alone, and then restarts them in several ways.
func restartRows(ctx context.Context, o options) (rows []engineRow, err error) {
	rest, rounds := restTime, restartRounds
	if o.quick {
		rest, rounds = quickTime, 1
	}
	dir, err := os.MkdirTemp("", "quorate-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cluster, err := startAtRest(ctx, o, dir)
	if err != nil {
		return nil, err
	}
	defer cluster.Kill()
	if rows, err = memoryRows(ctx, cluster, rest); err != nil {
		return rows, err
	}
	c, err := client.Dial(ctx, client.Config{Addresses: cluster.Addresses()})
	if err != nil {
		return rows, err
	}
	defer c.Close()
	if _, err := c.DeclareQueue(ctx, client.Queue{Name: restartQueue}); err != nil {
		return rows, err
	}
	for _, way := range waysToRestart() {
		worst := time.Duration(0)
		for range rounds {
			gap, err := meanwhile(ctx, c, func() error { return way.do(ctx, cluster) })
			if err != nil {
				return rows, fmt.Errorf("%s: %w", way.name, err)
			}
			worst = max(worst, gap)
		}
		rows = append(rows, way.aim.row(fmt.Sprintf("%s: longest time without a confirm, worst of %d", way.name, rounds), "s", worst.Seconds()))
	}
	return rows, nil
}

// wayToRestart is what is done to all nodes; do returns when they are ready again.
type wayToRestart struct {
	name string
	aim  goal
	do   func(context.Context, *chaos.Cluster) error
}

// waysToRestart are those of rollouts, and of machines that go down together.
func waysToRestart() []wayToRestart {
	return []wayToRestart{
		{"nodes restarted one after another", atMost(1), func(ctx context.Context, c *chaos.Cluster) error {
			for _, n := range c.Nodes {
				if err := errors.Join(n.Stop(ctx), n.Start()); err != nil {
					return err
				}
				if err := n.WaitReady(ctx); err != nil {
					return err
				}
			}
			return nil
		}},
		{"all nodes stopped at once, and started", atMost(10), func(ctx context.Context, c *chaos.Cluster) error {
			return errors.Join(c.Stop(ctx), c.Start(ctx))
		}},
		{"all nodes killed at once, and started", atMost(10), func(ctx context.Context, c *chaos.Cluster) error {
			c.Kill()
			return c.Start(ctx)
		}},
	}
}

// gaps counts confirms and keeps the longest time between two of them. Its methods may be called concurrently.
type gaps struct {
	mu      sync.Mutex
	count   int
	last    time.Time
	longest time.Duration
}

// add counts one.
func (x *gaps) add(now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.count > 0 {
		x.longest = max(x.longest, now.Sub(x.last))
	}
	x.count, x.last = x.count+1, now
}

// seen returns how many there were.
func (x *gaps) seen() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.count
}

// gap returns the longest time without one since the last call.
func (x *gaps) gap() time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	was := x.longest
	x.longest = 0
	return was
}

// publish sends one message after another, each when the one before is confirmed, until ctx ends.
func (x *gaps) publish(ctx context.Context, c *client.Client) error {
	p, err := c.Publisher(client.PublisherConfig{})
	if err != nil {
		return err
	}
	body := make([]byte, restartBytes)
	for ctx.Err() == nil {
		if _, err := p.Publish(ctx, client.Message{RoutingKey: restartQueue, Body: body}); err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // it was ordered to end
			}
			return err
		}
		x.add(time.Now())
		_ = wait.For(ctx, restartEvery) // the loop looks at the context
	}
	return nil
}

// meanwhile publishes while something is done, and returns the longest time without a confirm from its beginning
// until publishing continues after its end.
func meanwhile(ctx context.Context, c *client.Client, do func() error) (gap time.Duration, err error) {
	publishing, stop := context.WithCancel(ctx)
	defer stop()
	var x gaps
	ended := make(chan error, 1)
	go func() { ended <- x.publish(publishing, c) }()
	goesOn := func() error {
		for from := x.seen(); x.seen() < from+settledAfter; {
			select {
			case err := <-ended:
				return errors.Join(errors.New("the publisher has ended"), err)
			default:
			}
			if err := wait.For(ctx, restartEvery); err != nil {
				return err
			}
		}
		return nil
	}
	if err := goesOn(); err != nil {
		return 0, err
	}
	x.gap()
	if err := do(); err != nil {
		return 0, err
	}
	if err := goesOn(); err != nil {
		return 0, err
	}
	stop()
	err = <-ended
	_, purging := c.PurgeQueue(ctx, client.QueueRef{Name: restartQueue})
	return x.gap(), errors.Join(err, purging)
}
