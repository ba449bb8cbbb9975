package fault

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
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
			Name: "cpu", Does: "leaves a node 2 to 10 % of a processor", Roles: one,
			Shortest: time.Second, Longest: 6 * time.Second,
		}, "bound processors", cpu),
		using(Kind{
			Name: "clock-strobe", Does: "steps a node's wall clock forwards and back, over and over", Roles: one,
			Shortest: 2 * time.Second, Longest: 6 * time.Second,
		}, "step clocks", clockStrobe),
		using(Kind{
			Name: "clock-drift", Does: "lets a node's wall clock run twice as fast, or stand still", Roles: one,
			Shortest: 3 * time.Second, Longest: 8 * time.Second,
		}, "step clocks", clockDrift),
		using(Kind{
			Name: "memory", Does: "leaves a node little more memory than it uses; it starts again when that ended it", Roles: one, Class: "killed",
			Shortest: 2 * time.Second, Longest: 6 * time.Second,
		}, "bound memory", memory),
		using(Kind{
			Name: "descriptors", Does: "leaves a node no descriptor for another file or connection", Roles: one,
			Shortest: time.Second, Longest: 6 * time.Second,
		}, "bound descriptors", descriptors),
	}
}

func clock(ctx context.Context, s *Scene, k target.Clocks, c Choice) (Fault, error) {
	by := []time.Duration{time.Hour, -time.Hour, time.Minute, -time.Minute}[c.Pick%4]
	node := c.Nodes[0]
	bit, err := stepped(ctx, s, node, by)
	if err != nil {
		return Fault{}, err
	}
	return Fault{Bit: bit, Heal: func(ctx context.Context) error { return k.Step(ctx, node, 0) }}, k.Step(ctx, node, by)
}

// stepped returns a Bit that asks whether the node has seen its clock step, or is off by half as much.
func stepped(ctx context.Context, s *Scene, node string, by time.Duration) (func(context.Context) (string, bool, error), error) {
	const steps = "quorate_clock_steps_total"
	before, err := target.Metric(ctx, s.Cluster, node, steps)
	return func(ctx context.Context) (string, bool, error) {
		after, err := target.Metric(ctx, s.Cluster, node, steps)
		if err != nil {
			return "", false, err
		}
		off, err := target.Metric(ctx, s.Cluster, node, "quorate_clock_error_seconds")
		felt := after > before || math.Abs(off) > by.Abs().Seconds()/2
		return fmt.Sprintf("the node saw %.0f steps of its clock, and is %.1f s off", after-before, off), felt, err
	}, err
}

// strobeEvery is how long a clock that strobes keeps each of its times.
const strobeEvery = 300 * time.Millisecond

func clockStrobe(ctx context.Context, s *Scene, k target.Clocks, c Choice) (Fault, error) {
	by := []time.Duration{time.Minute, -time.Minute}[c.Pick%2]
	node := c.Nodes[0]
	bit, err := stepped(ctx, s, node, by)
	if err != nil {
		return Fault{}, err
	}
	return Fault{Bit: bit, Heal: alternate(ctx, strobeEvery, strobeEvery,
		func(ctx context.Context) error { return k.Step(ctx, node, by) },
		func(ctx context.Context) error { return k.Step(ctx, node, 0) },
	)}, nil
}

// driftEvery is how often a clock that drifts is a second further from the true time.
const driftEvery = time.Second

func clockDrift(ctx context.Context, s *Scene, k target.Clocks, c Choice) (Fault, error) {
	by := []time.Duration{time.Second, -time.Second}[c.Pick%2]
	node := c.Nodes[0]
	bit, err := stepped(ctx, s, node, by)
	if err != nil {
		return Fault{}, err
	}
	var off time.Duration
	stop := alternate(ctx, driftEvery, 0, func(ctx context.Context) error {
		off += by
		return k.Step(ctx, node, off)
	}, func(context.Context) error { return nil })
	return Fault{Bit: bit, Heal: func(ctx context.Context) error { return errors.Join(stop(ctx), k.Step(ctx, node, 0)) }}, nil
}

// memory does not know whether the node will ask for more: it starts it again if that ended it.
func memory(ctx context.Context, s *Scene, m target.Memory, c Choice) (Fault, error) {
	node := c.Nodes[0]
	before, err := m.Squeezed(ctx, node)
	if err != nil {
		return Fault{}, err
	}
	err = m.Squeeze(ctx, node)
	return Fault{
		Heal: func(ctx context.Context) error {
			return errors.Join(m.Release(ctx, node), revive(ctx, s.Cluster, m, c.Nodes))
		},
		Bit: func(ctx context.Context) (string, bool, error) {
			after, err := squeezedMore(ctx, m, node, before)
			return fmt.Sprintf("the node asked %d times for memory that it did not have; it runs: %v", after-before, m.Running(node)), after > before, err
		},
	}, err
}

// squeezeTries and squeezeEvery bound for how long a node gets less and less memory until it asks for more.
const (
	squeezeTries = 20
	squeezeEvery = 100 * time.Millisecond
)

// squeezedMore returns how often a node has asked for memory that it did not have. While that is as often as before, it
// takes what is unused by then too: what had not been written to the disk could not be taken at first.
func squeezedMore(ctx context.Context, m target.Memory, node string, before uint64) (after uint64, err error) {
	again := time.NewTicker(squeezeEvery)
	defer again.Stop()
	for range squeezeTries {
		if after, err = m.Squeezed(ctx, node); err != nil || after > before || !m.Running(node) {
			return after, err
		}
		if err = m.Squeeze(ctx, node); err != nil {
			return after, err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return after, ctx.Err()
		}
	}
	return m.Squeezed(ctx, node)
}

// connectionsTried is how many connections show that a node is short of descriptors.
const connectionsTried = 8

func descriptors(ctx context.Context, s *Scene, d target.Descriptors, c Choice) (Fault, error) {
	node := c.Nodes[0]
	err := d.Descriptors(ctx, node, 0)
	return Fault{
		Heal: func(ctx context.Context) error { return d.Descriptors(ctx, node, -1) },
		Bit: func(ctx context.Context) (string, bool, error) {
			for _, n := range s.Cluster.Nodes() {
				if n.ID != node {
					continue
				}
				dialer := net.Dialer{Timeout: time.Second}
				for range connectionsTried {
					if c, err := dialer.DialContext(ctx, "tcp", n.Client); err == nil {
						defer c.Close() //nolint:errcheck // nothing was sent
					}
				}
			}
			short, err := target.Metric(ctx, s.Cluster, node, "quorate_gate_descriptors_short_total")
			if err != nil {
				return "the node takes no connection", true, nil // that is the proof
			}
			return fmt.Sprintf("the node was short of descriptors %.0f times", short), short > 0, nil
		},
	}, err
}

func cpu(ctx context.Context, _ *Scene, l target.Limits, c Choice) (Fault, error) {
	node := c.Nodes[0]
	before, err := l.Throttled(ctx, node)
	if err != nil {
		return Fault{}, err
	}
	err = l.CPU(ctx, node, float64(2+c.Pick%9)/100)
	return Fault{
		Heal: func(ctx context.Context) error { return l.CPU(ctx, node, 0) },
		Bit: func(ctx context.Context) (string, bool, error) {
			after, err := l.Throttled(ctx, node)
			return fmt.Sprintf("the node was held up for %v", (after - before).Round(time.Millisecond)), after > before, err
		},
	}, err
}
