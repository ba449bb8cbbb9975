package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/chaos/target/netns"
	"github.com/quorate/quorate/internal/wait"
)

// fault is a fault of the leader's node, and its repair.
type fault struct {
	name string
	// held is its least duration, also when confirms resume before.
	held time.Duration
	// strobes means that it comes and goes while it is held: the longest time without a confirm counts, to the first one
	// after it was healed. Otherwise the time to the next confirm does.
	strobes bool
	// inject returns the moment from which time counts.
	inject func(ctx context.Context, c *netns.Cluster, node string) (from time.Time, err error)
	heal   func(ctx context.Context, c *netns.Cluster, node string) error
}

// named returns the fault's name.
func (f fault) named() string { return f.name }

// flapEvery is how long links stay cut, and joined, of a node that flaps.
const flapEvery = 300 * time.Millisecond

// faults lists the faults that may hit a leader's node, each with its repair.
func faults() []fault {
	now := func(do func(context.Context, *netns.Cluster, string) error) func(context.Context, *netns.Cluster, string) (time.Time, error) {
		return func(ctx context.Context, c *netns.Cluster, node string) (time.Time, error) {
			from := time.Now()
			return from, do(ctx, c, node)
		}
	}
	kill := func(ctx context.Context, c *netns.Cluster, node string) error { return c.Kill(ctx, node) }
	start := func(ctx context.Context, c *netns.Cluster, node string) error { return c.Start(ctx, node) }
	pause := func(ctx context.Context, c *netns.Cluster, node string) error { return c.Pause(ctx, node) }
	resume := func(ctx context.Context, c *netns.Cluster, node string) error { return c.Resume(ctx, node) }
	freeze := func(ctx context.Context, c *netns.Cluster, node string) error { return c.Freeze(ctx, node) }
	thaw := func(ctx context.Context, c *netns.Cluster, node string) error { return c.Thaw(ctx, node) }
	fill := func(ctx context.Context, c *netns.Cluster, node string) error { return c.Fill(ctx, node) }
	fail := func(ctx context.Context, c *netns.Cluster, node string) error { return c.Fail(ctx, node) }
	return []fault{
		{name: "killed", inject: now(kill), heal: start},
		{name: "paused", held: time.Second, inject: now(pause), heal: resume},
		{name: "cut off", held: time.Second, inject: now(cutOff), heal: joinAgain},
		{name: "cut off one way", held: time.Second, inject: now(cutOut), heal: joinOut},
		flapping(),
		// A disk that still takes some data is only slow, and nodes tolerate slow disks.
		{name: "disk frozen", held: 2 * time.Second, inject: now(freeze), heal: thaw},
		{name: "disk full", held: 2 * time.Second, inject: now(fill), heal: emptied},
		{name: "disk failed", inject: now(fail), heal: replug},
		{
			name: "started after a power cut of all", inject: powerCut,
			heal: func(context.Context, *netns.Cluster, string) error { return nil },
		},
	}
}

// others calls do for every node besides one.
func others(c *netns.Cluster, node string, do func(other string) error) error {
	var errs []error
	for _, n := range c.Nodes() {
		if n.ID != node {
			errs = append(errs, do(n.ID))
		}
	}
	return errors.Join(errs...)
}

// cutOut lets nothing from the node reach its peers. Packets from the peers still arrive.
func cutOut(ctx context.Context, c *netns.Cluster, node string) error {
	return others(c, node, func(other string) error { return c.Cut(ctx, node, other) })
}

// joinOut ends cutOut.
func joinOut(ctx context.Context, c *netns.Cluster, node string) error {
	return others(c, node, func(other string) error { return c.Join(ctx, node, other) })
}

// cutOff lets nothing pass between the node and its peers.
func cutOff(ctx context.Context, c *netns.Cluster, node string) error {
	return errors.Join(cutOut(ctx, c, node), others(c, node, func(other string) error { return c.Cut(ctx, other, node) }))
}

// joinAgain ends cutOff.
func joinAgain(ctx context.Context, c *netns.Cluster, node string) error {
	return errors.Join(joinOut(ctx, c, node), others(c, node, func(other string) error { return c.Join(ctx, other, node) }))
}

// flapping cuts the node off and joins it again, over and over.
func flapping() fault {
	var end context.CancelFunc
	var ended chan error
	return fault{
		name: "flapping", held: 6 * time.Second, strobes: true,
		inject: func(ctx context.Context, c *netns.Cluster, node string) (time.Time, error) {
			var flaps context.Context
			flaps, end = context.WithCancel(ctx)
			ended = make(chan error, 1)
			go func() {
				working := context.WithoutCancel(ctx)
				var err error
				for flaps.Err() == nil && err == nil {
					err = cutOff(working, c, node)
					_ = wait.For(flaps, flapEvery)
					err = errors.Join(err, joinAgain(working, c, node))
					_ = wait.For(flaps, flapEvery)
				}
				ended <- err
			}()
			return time.Now(), nil
		},
		heal: func(context.Context, *netns.Cluster, string) error {
			end()
			return <-ended
		},
	}
}

// emptied frees the node's disk, and starts it if it has ended meanwhile.
func emptied(ctx context.Context, c *netns.Cluster, node string) error {
	if err := c.Free(ctx, node); err != nil || c.Running(node) {
		return err
	}
	return c.Start(ctx, node)
}

// replug waits until a node has ended because of its failed disk, mounts the disk again and starts
// the node.
func replug(ctx context.Context, c *netns.Cluster, node string) error {
	ending, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for c.Running(node) {
		if err := wait.For(ending, 20*time.Millisecond); err != nil {
			return fmt.Errorf("node %s did not end when its disk failed: %w", node, err)
		}
	}
	return errors.Join(c.Replug(ctx, node), c.Start(ctx, node))
}

// powerCut takes the power of all nodes, and what they had not synced, and starts them. Time counts from then on.
func powerCut(ctx context.Context, c *netns.Cluster, _ string) (time.Time, error) {
	var nodes []string
	for _, n := range c.Nodes() {
		nodes = append(nodes, n.ID)
	}
	err := c.CutPower(ctx, nodes...)
	for _, n := range nodes {
		err = errors.Join(err, c.Replug(ctx, n))
	}
	from := time.Now()
	for _, n := range nodes {
		err = errors.Join(err, c.Start(ctx, n))
	}
	return from, err
}
