package fault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/internal/each"
	"github.com/quorate/quorate/internal/wait"
)

// disked are drivers that hurt disks, and start what ends by that.
type disked interface {
	target.Disks
	target.Processes
}

// diskKinds are the faults of disks that keep what they stored.
func diskKinds() []Kind {
	one := []Role{Leader, Follower, Anyone}
	return []Kind{
		using(Kind{
			Name: "disk-full", Does: "takes all free space of a node's disk", Roles: one, Class: "disk full",
			Shortest: time.Second, Longest: 6 * time.Second,
		}, "fill disks", diskFull),
		using(Kind{
			Name: "disk-frozen", Does: "lets every write of a node hang", Roles: one, Class: "disk frozen",
			Shortest: time.Second, Longest: 14 * time.Second, // some beyond timeouts.disk_hang
		}, "freeze disks", diskFrozen),
		using(Kind{
			Name: "disk-slow", Does: "lets a node's writes wait up to 300 ms, over and over", Roles: one,
			Shortest: 2 * time.Second, Longest: 6 * time.Second,
		}, "freeze disks", diskSlow),
		using(Kind{
			Name: "disk-fails", Does: "lets a node's disk answer EIO; it is back, with what was synced, when that ended the process", Roles: one,
			Class: "disk failed", Shortest: time.Second, Longest: 6 * time.Second,
		}, "let disks fail", diskFails),
		using(Kind{
			Name: "power-cut", Does: "ends nodes at the same moment, and loses what was not synced", Roles: []Role{Leader, Follower, Majority, All},
			Class: "power cut", Shortest: time.Second, Longest: 4 * time.Second,
		}, "cut power", powerCut),
	}
}

func diskFull(ctx context.Context, s *Scene, d disked, c Choice) (Fault, error) {
	err := each.Of(c.Nodes, 1, func(n string) error { return d.Fill(ctx, n) })
	return Fault{
		Heal: func(ctx context.Context) error {
			return errors.Join(each.Of(c.Nodes, 1, func(n string) error { return d.Free(ctx, n) }), revive(ctx, s.Cluster, d, c.Nodes))
		},
		Bit: func(ctx context.Context) (string, bool, error) {
			free, err := target.Metric(ctx, s.Cluster, c.Nodes[0], "quorate_disk_free_bytes")
			if err != nil {
				return "the node has ended, or ends", true, nil //nolint:nilerr // that is the proof
			}
			low, err := target.Metric(ctx, s.Cluster, c.Nodes[0], "quorate_disk_low_bytes")
			return fmt.Sprintf("the node sees %.0f free bytes and takes no messages below %.0f", free, low), free < low, err
		},
	}, err
}

func diskFrozen(ctx context.Context, s *Scene, d disked, c Choice) (Fault, error) {
	err := each.Of(c.Nodes, 1, func(n string) error { return d.Freeze(ctx, n) })
	syncs, _ := target.Metric(ctx, s.Cluster, c.Nodes[0], "quorate_log_syncs_total") // unknown: then the node's silence is the proof
	return Fault{
		Heal: func(ctx context.Context) error {
			if err := each.Of(c.Nodes, 1, func(n string) error { return d.Thaw(ctx, n) }); err != nil {
				return err
			}
			return revive(ctx, s.Cluster, d, c.Nodes)
		},
		Bit: func(ctx context.Context) (string, bool, error) {
			after, err := target.Metric(ctx, s.Cluster, c.Nodes[0], "quorate_log_syncs_total")
			if err != nil {
				return "the node has ended, or does not answer", true, nil //nolint:nilerr // that is the proof
			}
			waiting, err := target.Metric(ctx, s.Cluster, c.Nodes[0], "quorate_log_pending_bytes")
			return fmt.Sprintf("%.0f bytes wait for the disk, after %.0f syncs", waiting, after-syncs), waiting > 0, err
		},
	}, err
}

// slowFor and fastFor are how long a slow disk keeps a write waiting, and takes writes between.
const (
	slowFor = 300 * time.Millisecond
	fastFor = 10 * time.Millisecond
)

// diskSlow freezes the disk for moments: a sync within one waits for its end.
func diskSlow(ctx context.Context, s *Scene, d disked, c Choice) (Fault, error) {
	node := c.Nodes[0]
	const syncs = "quorate_log_syncs_total"
	before, err := target.Metric(ctx, s.Cluster, node, syncs)
	if err != nil {
		return Fault{}, err
	}
	began := time.Now()
	stop := alternate(ctx, slowFor, fastFor,
		func(ctx context.Context) error { return d.Freeze(ctx, node) },
		func(ctx context.Context) error { return d.Thaw(ctx, node) })
	return Fault{
		Heal: func(ctx context.Context) error { return errors.Join(stop(ctx), revive(ctx, s.Cluster, d, c.Nodes)) },
		Bit: func(ctx context.Context) (string, bool, error) {
			after, err := target.Metric(ctx, s.Cluster, node, syncs)
			each := time.Since(began) / time.Duration(max(1, after-before))
			return fmt.Sprintf("the node made %.0f syncs, one in %v", after-before, each.Round(time.Millisecond)), err == nil && each > slowFor/12, err
		},
	}, nil
}

func diskFails(ctx context.Context, _ *Scene, d disked, c Choice) (Fault, error) {
	err := each.Of(c.Nodes, 1, func(n string) error { return d.Fail(ctx, n) })
	return Fault{
		Heal: func(ctx context.Context) error {
			return each.Of(c.Nodes, 1, func(n string) error {
				if d.Running(n) && !gone(ctx, d, n, endTimeout) { // a disk does not come back to a process that uses it
					if err := d.Kill(ctx, n); d.Running(n) {
						return err
					}
				}
				return errors.Join(d.Replug(ctx, n), d.Start(ctx, n))
			})
		},
		Bit: func(ctx context.Context) (string, bool, error) {
			if gone(ctx, d, c.Nodes[0], endTimeout) {
				return "the process ended by itself", true, nil
			}
			return "the process runs on", false, nil
		},
	}, err
}

func powerCut(ctx context.Context, s *Scene, d disked, c Choice) (Fault, error) {
	bit := endsProcesses(ctx, s, c.Nodes)
	err := d.CutPower(ctx, c.Nodes...)
	back := rotated(c.Nodes, c.Pick)
	return Fault{Bit: bit, Heal: func(ctx context.Context) error {
		return each.Of(back, 1, func(n string) error { return errors.Join(d.Replug(ctx, n), d.Start(ctx, n)) })
	}}, err
}

// endTimeout bounds how long a process takes that ends by itself, and lingerTime the wait for one
// that may.
const (
	endTimeout = 10 * time.Second
	lingerTime = time.Second
)

// revive starts nodes that ended by themselves, or are about to, until they stay: what supervisors do.
func revive(ctx context.Context, c target.Cluster, p target.Processes, nodes []string) error {
	ctx, cancel := context.WithTimeout(ctx, wholeTimeout)
	defer cancel()
	return each.Of(nodes, 1, func(n string) error {
		for {
			if gone(ctx, p, n, lingerTime) {
				if err := p.Start(ctx, n); err != nil {
					return err
				}
			}
			ready, cancel := context.WithTimeout(ctx, endTimeout)
			err := c.WaitReady(ready, n)
			cancel()
			if err == nil && !gone(ctx, p, n, lingerTime) || ctx.Err() != nil {
				return err
			}
		}
	})
}

// gone waits until a node has no process, for so long.
func gone(ctx context.Context, p target.Processes, node string, limit time.Duration) bool {
	for end := time.Now().Add(limit); p.Running(node); {
		if time.Now().After(end) || wait.For(ctx, pollEvery) != nil {
			return false
		}
	}
	return true
}
