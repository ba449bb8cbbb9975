package fault

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/quorate/quorate/chaos/target"
)

// machineKinds are the faults of clocks and processors.
func machineKinds() []Kind {
	one := []Role{Leader, Follower, Anyone}
	return []Kind{
		using(Kind{
			Name: "clock", Does: "steps a node's wall clock by an hour or a minute, forwards or backwards", Roles: one,
			Shortest: 2 * time.Second, Longest: 6 * time.Second,
		}, "step clocks", clock),
		using(Kind{
			Name: "cpu", Does: "leaves a node 5 to 30 % of a processor", Roles: one,
			Shortest: time.Second, Longest: 6 * time.Second,
		}, "bound processors", cpu),
	}
}

func clock(ctx context.Context, s *Scene, k target.Clocks, c Choice) (Fault, error) {
	by := []time.Duration{time.Hour, -time.Hour, time.Minute, -time.Minute}[c.Pick%4]
	node := c.Nodes[0]
	const steps = "quorate_clock_steps_total"
	before, err := metric(ctx, s.Cluster, node, steps)
	if err != nil {
		return Fault{}, err
	}
	err = k.Step(ctx, node, by)
	return Fault{
		Heal: func(ctx context.Context) error { return k.Step(ctx, node, 0) },
		Bit: func(ctx context.Context) (string, bool, error) {
			after, err := metric(ctx, s.Cluster, node, steps)
			if err != nil {
				return "", false, err
			}
			off, err := metric(ctx, s.Cluster, node, "quorate_clock_error_seconds")
			felt := after > before || math.Abs(off) > by.Abs().Seconds()/2
			return fmt.Sprintf("the node saw %.0f steps of its clock, and is %.1f s off", after-before, off), felt, err
		},
	}, err
}

func cpu(ctx context.Context, _ *Scene, l target.Limits, c Choice) (Fault, error) {
	node := c.Nodes[0]
	before, err := l.Throttled(ctx, node)
	if err != nil {
		return Fault{}, err
	}
	err = l.CPU(ctx, node, float64(5+c.Pick%26)/100)
	return Fault{
		Heal: func(ctx context.Context) error { return l.CPU(ctx, node, 0) },
		Bit: func(ctx context.Context) (string, bool, error) {
			after, err := l.Throttled(ctx, node)
			return fmt.Sprintf("the node was held up for %v", (after - before).Round(time.Millisecond)), after > before, err
		},
	}, err
}
