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
	moveRounds   = 3 // of each trigger and size; the figures cover all of them together
	moveTimeout  = 5 * time.Minute
	movePoll     = 25 * time.Millisecond
	quickWaiting = 20_000
	quickTime    = 300 * time.Millisecond
	expirePolicy = "expire"
	sourceQueue  = "source"
	targetQueue  = "target"
	bystander    = "bystander"
	waitingTime  = 10 * time.Second // dead letters that wait while the bystander's publishers are timed
	sampleEvery  = 200 * time.Millisecond
)

// deadSuite is a part of the dead-letter rows; each part has a cluster of its own.
type deadSuite struct {
	name string
	run  func(context.Context, *deadWorld) ([]engineRow, error)
}

func (s deadSuite) named() string { return s.name }

func deadSuites() []deadSuite { return []deadSuite{{"move", moveRows}, {"wait", waitRows}} }

// deadWorld is a cluster with a queue that dead-letters at least once to another one, each with
// three replicas. Different nodes lead the two queues, so that dead letters cross a link.
type deadWorld struct {
	o       options
	cluster *chaos.Cluster
	admin   *client.Client
	clients []*client.Client // one for each node
}

// runDeadLetters measures the chosen parts one after another, prints the table and stores the rows.
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
	// Each node logs its garbage collections: the log has the size of the live heap.
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

// declare declares the queues and moves the lead of each to a node of its own.
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

// lead moves the lead of a queue to a node.
func (w *deadWorld) lead(ctx context.Context, queue, node string) error {
	var last error
	err := w.until(ctx, func() (bool, error) {
		q, err := w.admin.GetQueue(ctx, client.QueueRef{Name: queue})
		if err != nil || q.Leader == node {
			return err == nil, err
		}
		last = w.admin.TransferLeadership(ctx, client.TransferLeadershipRequest{Queue: queue, Node: node}) // a node refuses this for a moment after an election
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("move the lead of queue %s to %s: %w", queue, node, errors.Join(err, last))
	}
	return nil
}

// until polls until the condition holds, an error occurs, or moveTimeout is over.
func (w *deadWorld) until(ctx context.Context, so func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, moveTimeout, fmt.Errorf("the condition did not hold within %s", moveTimeout))
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
	if q.Stats == nil { // the queue has no leader now
		q.Stats = new(client.QueueStats)
	}
	return *q.Stats, err
}

// arrived waits until the source has no messages and the target has exactly n.
func (w *deadWorld) arrived(ctx context.Context, n int64) error {
	err := w.until(ctx, func() (bool, error) {
		to, err := w.stats(ctx, targetQueue)
		if err != nil {
			return false, err
		}
		if to.Messages > uint64(n) {
			return false, fmt.Errorf("queue %s has %d messages, want %d", targetQueue, to.Messages, n)
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

// setTTL sets the source's message TTL to a millisecond, which applies to stored messages too
// (PO-9), or removes it again.
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
	return w.until(ctx, func() (bool, error) { // later messages must not expire
		q, err := w.admin.GetQueue(ctx, client.QueueRef{Name: sourceQueue})
		return q.Policy == "" && !q.SettingsPending && q.Stats != nil, err
	})
}
