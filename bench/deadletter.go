package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/quorate/quorate/chaos"
	"github.com/quorate/quorate/client"
)

// Bounds of the dead-letter rows.
const (
	moveRounds   = 3 // of each trigger and size; the figures are those of all together
	moveTimeout  = 5 * time.Minute
	movePoll     = 25 * time.Millisecond
	quickWaiting = 20_000
	quickTime    = 300 * time.Millisecond
	expirePolicy = "expire"
	sourceQueue  = "source"
	targetQueue  = "target"
	bystander    = "bystander"
	waitingTime  = 10 * time.Second // that letters wait while the bystander's publishers are timed
	sampleEvery  = 200 * time.Millisecond
)

// deadSuite is a part of the dead-letter rows; each has a cluster of its own.
type deadSuite struct {
	name string
	run  func(context.Context, *deadWorld) ([]engineRow, error)
}

func (s deadSuite) named() string { return s.name }

func deadSuites() []deadSuite { return []deadSuite{{"move", moveRows}, {"wait", waitRows}} }

// deadWorld is a cluster with a queue whose dead letters go to another one at least once,
// each with three replicas. They are led by different nodes, so that letters cross a link.
type deadWorld struct {
	o       options
	cluster *chaos.Cluster
	admin   *client.Client
	clients []*client.Client // one of each node
}

// runDeadLetters measures the chosen parts one after another, prints the table and stores it.
func runDeadLetters(ctx context.Context, o options, only string) error {
	if o.quick {
		o.waiting, o.time, o.latencyTime = min(o.waiting, quickWaiting), quickTime, quickTime
	}
	suites, err := chooseNamed(deadSuites(), only, deadSuite.named)
	if err != nil {
		return err
	}
	m := measurement{
		title: "Dead letters at least once, three node processes", file: "deadletter",
		whole: only == "" && !o.quick,
	}
	for _, s := range suites {
		m.parts = append(m.parts, measured{s.name, func(ctx context.Context) ([]engineRow, error) { return inDeadWorld(ctx, o, s) }})
	}
	return m.run(ctx, o)
}

// inDeadWorld runs a part on three nodes whose data is on disk.
func inDeadWorld(ctx context.Context, o options, s deadSuite) (rows []engineRow, err error) {
	dir, err := os.MkdirTemp("", "quorate-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cluster, err := chaos.NewCluster(chaos.ClusterConfig{
		Binary: o.binary, Dir: filepath.Clean(dir), Name: "bench", Settings: "log:\n  level: error\n",
	})
	if err != nil {
		return nil, err
	}
	// The nodes tell of each collection in their logs: that is how much of the heap lives.
	if err := os.Setenv("GODEBUG", gcTrace); err != nil {
		return nil, err
	}
	defer cluster.Kill()
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := cluster.Start(starting); err != nil {
		return nil, err
	}
	w := &deadWorld{o: o, cluster: cluster}
	if w.admin, err = client.Dial(ctx, client.Config{Addresses: cluster.Addresses()}); err != nil {
		return nil, err
	}
	defer w.admin.Close()
	clients, hangUp, err := dialEach(ctx, cluster)
	if err != nil {
		return nil, err
	}
	defer hangUp()
	w.clients = clients
	if err := w.declare(starting); err != nil {
		return nil, err
	}
	return s.run(ctx, w)
}

// declare makes the queues and has each led by a node of its own.
func (w *deadWorld) declare(ctx context.Context) error {
	for i, q := range []client.Queue{
		{Name: sourceQueue, Arguments: client.Table{
			"x-dead-letter-exchange": "", "x-dead-letter-routing-key": targetQueue,
			"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
		}},
		{Name: targetQueue, Arguments: client.Table{"x-overflow": "reject-publish"}},
		{Name: bystander},
	} {
		if _, err := w.admin.DeclareQueue(ctx, q); err != nil {
			return err
		}
		if err := w.lead(ctx, q.Name, w.cluster.Nodes[i].ID); err != nil {
			return err
		}
	}
	return nil
}

// lead has a queue led by the node.
func (w *deadWorld) lead(ctx context.Context, queue, node string) error {
	var last error
	err := w.until(ctx, func() (bool, error) {
		q, err := w.admin.GetQueue(ctx, client.QueueRef{Name: queue})
		if err != nil || q.Leader == node {
			return err == nil, err
		}
		last = w.admin.TransferLeadership(ctx, client.TransferLeadershipRequest{Queue: queue, Node: node}) // refused for a moment after an election
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("queue %s is to be led by %s: %w", queue, node, errors.Join(err, last))
	}
	return nil
}

// until asks again and again until it is so, an error comes, or moveTimeout is over.
func (w *deadWorld) until(ctx context.Context, so func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, moveTimeout, fmt.Errorf("it was not so within %s", moveTimeout))
	defer cancel()
	tick := time.NewTicker(movePoll)
	defer tick.Stop()
	for {
		if done, err := so(); done || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// stats reads a queue's figures.
func (w *deadWorld) stats(ctx context.Context, queue string) (client.QueueStats, error) {
	q, err := w.admin.GetQueue(ctx, client.QueueRef{Name: queue})
	if q.Stats == nil { // nobody leads it
		q.Stats = new(client.QueueStats)
	}
	return *q.Stats, err
}

// arrived waits until the source has nothing and the target exactly n messages.
func (w *deadWorld) arrived(ctx context.Context, n int64) error {
	err := w.until(ctx, func() (bool, error) {
		to, err := w.stats(ctx, targetQueue)
		if err != nil {
			return false, err
		}
		if to.Messages > uint64(n) {
			return false, fmt.Errorf("queue %s has %d messages, %d were to go there", targetQueue, to.Messages, n)
		}
		if to.MessagesReady < uint64(n) {
			return false, nil
		}
		from, err := w.stats(ctx, sourceQueue)
		return from.Messages == 0, err
	})
	if err != nil {
		return fmt.Errorf("waiting for %d dead letters in %s: %w", n, targetQueue, err)
	}
	return nil
}

// setTTL gives the source's messages a TTL of a millisecond, those that are there too
// (PO-9), or takes it away again.
func (w *deadWorld) setTTL(ctx context.Context, on bool) error {
	if on {
		_, err := w.admin.PutPolicy(ctx, client.Policy{
			Name: expirePolicy, Pattern: "^" + sourceQueue + "$", ApplyTo: "queues",
			Definition: client.Table{"message-ttl": 1},
		})
		return err
	}
	if _, err := w.admin.DeletePolicy(ctx, client.PolicyRef{Name: expirePolicy}); err != nil {
		return err
	}
	return w.until(ctx, func() (bool, error) { // what is published next must not expire
		q, err := w.admin.GetQueue(ctx, client.QueueRef{Name: sourceQueue})
		return q.Policy == "" && !q.SettingsPending && q.Stats != nil, err
	})
}
