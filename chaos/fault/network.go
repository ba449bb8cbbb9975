package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/internal/wait"
)

// way is a link, from one node to another.
type way [2]string

// networkKinds are the faults of links between nodes.
func networkKinds() []Kind {
	one := []Role{Leader, Follower, Anyone}
	partition := func(name, does, class string, roles []Role, cut func(nodes, all []string, pick uint64) []way) Kind {
		return using(Kind{
			Name: name, Does: does, Roles: roles, Class: class, Shortest: time.Second, Longest: 6 * time.Second,
		}, "cut links", func(ctx context.Context, s *Scene, n target.Network, c Choice) (Fault, error) {
			return partitioned(ctx, n, cut(c.Nodes, ids(s.Cluster), c.Pick))
		})
	}
	shaped := func(name, does string, shape func(pick uint64) target.Shape) Kind {
		return using(Kind{
			Name: name, Does: does, Roles: one, Shortest: time.Second, Longest: 6 * time.Second,
		}, "slow links", func(ctx context.Context, s *Scene, n target.Shaping, c Choice) (Fault, error) {
			return slowed(ctx, n, around(c.Nodes, ids(s.Cluster)), shape(c.Pick))
		})
	}
	const cutOff, oneWay = "cut off", "one way"
	ring := partition("ring", "leaves each node the links to its two neighbours in a ring", cutOff, []Role{All}, ringOf)
	ring.Needs = both(ring.Needs, func(c target.Cluster) error {
		if n := len(c.Nodes()); n < 5 {
			return fmt.Errorf("fault: a ring of %d nodes has all links: 5 are needed", n)
		}
		return nil
	})
	return []Kind{
		partition("isolate", "cuts a node off from all others", cutOff, one, func(nodes, all []string, _ uint64) []way { return around(nodes, all) }),
		partition("halves", "cuts the cluster in two; the node that is hit is in the smaller part", cutOff, one, halvesOf),
		partition("one-way-out", "lets nothing from a node reach others", oneWay, one, func(nodes, all []string, _ uint64) []way { return toOthers(nodes, all) }),
		partition("one-way-in", "lets nothing from others reach a node", oneWay, one, func(nodes, all []string, _ uint64) []way {
			return reversed(toOthers(nodes, all))
		}),
		partition("scatter", "cuts all links, so that each node is alone", cutOff, []Role{All}, func(_, all []string, _ uint64) []way { return betweenAll(all) }),
		partition("bridge", "cuts the link of two nodes, which reach each other through a third", cutOff, one, bridgeOf),
		ring,
		using(Kind{
			Name: "flapping", Does: "cuts a node off and joins it again, every 0.3 s", Roles: one, Class: "flapping",
			Shortest: 2 * time.Second, Longest: 6 * time.Second,
		}, "cut links", flapping),
		using(Kind{
			Name: "unplug", Does: "takes a node off its network, from clients too", Roles: one, Class: "cut off",
			Shortest: time.Second, Longest: 6 * time.Second,
		}, "unplug nodes", unplugged),
		shaped("delay", "delays what a node sends and receives by 5 to 200 ms, with as much jitter, and reorders a tenth", func(pick uint64) target.Shape {
			d := time.Duration(5+pick%195) * time.Millisecond
			return target.Shape{Delay: d / 2, Jitter: d, Reorder: 0.1}
		}),
		using(Kind{
			Name: "loss", Does: "loses 1 to 20 % of the packets that a node sends and receives", Roles: one,
			Shortest: time.Second, Longest: 6 * time.Second,
		}, "lose packets", lossy),
		shaped("bandwidth", "leaves each link of a node 125 kB/s", func(uint64) target.Shape { return target.Shape{BytesPerSec: 125_000} }),
	}
}

// both asks two things of a cluster.
func both(a, b func(target.Cluster) error) func(target.Cluster) error {
	return func(c target.Cluster) error {
		if err := a(c); err != nil {
			return err
		}
		return b(c)
	}
}

// ids returns the cluster's nodes.
func ids(c target.Cluster) []string {
	var out []string
	for _, n := range c.Nodes() {
		out = append(out, n.ID)
	}
	return out
}

// toOthers returns the ways from nodes to all that are not among them.
func toOthers(nodes, all []string) []way {
	var out []way
	for _, from := range nodes {
		for _, to := range all {
			if !slices.Contains(nodes, to) {
				out = append(out, way{from, to})
			}
		}
	}
	return out
}

func reversed(ways []way) []way {
	out := make([]way, len(ways))
	for i, w := range ways {
		out[i] = way{w[1], w[0]}
	}
	return out
}

// around returns the ways between nodes and all that are not among them.
func around(nodes, all []string) []way {
	out := toOthers(nodes, all)
	return append(out, reversed(out)...)
}

// betweenAll returns the ways between all of these nodes.
func betweenAll(all []string) (out []way) {
	for _, from := range all {
		for _, to := range all {
			if from != to {
				out = append(out, way{from, to})
			}
		}
	}
	return out
}

// halvesOf cuts off the largest minority that the first node can be in.
func halvesOf(nodes, all []string, pick uint64) []way {
	side := nodes[:1:1]
	for _, n := range rotated(all, pick) {
		if len(side) < (len(all)-1)/2 && n != nodes[0] {
			side = append(side, n)
		}
	}
	return around(side, all)
}

// bridgeOf cuts the first node's link to one other.
func bridgeOf(nodes, all []string, pick uint64) []way {
	ways := toOthers(nodes[:1], all)
	if len(ways) == 0 {
		return nil
	}
	w := ways[pick%uint64(len(ways))]
	return []way{w, {w[1], w[0]}}
}

// ringOf cuts all links but those of neighbours in a ring.
func ringOf(_, all []string, pick uint64) []way {
	all = rotated(all, pick)
	var out []way
	for i, from := range all {
		for j, to := range all {
			if apart := (j - i + len(all)) % len(all); apart > 1 && apart < len(all)-1 {
				out = append(out, way{from, to})
			}
		}
	}
	return out
}

// partitioned cuts ways until the fault is healed.
func partitioned(ctx context.Context, n target.Network, ways []way) (Fault, error) {
	bit, err := felt(ctx, n)
	if err != nil {
		return Fault{}, err
	}
	if len(ways) == 0 {
		return Fault{}, errors.New("fault: there is no link to cut: all nodes are hit")
	}
	err = every(ways, func(from, to string) error { return n.Cut(ctx, from, to) })
	return Fault{Bit: bit, Heal: func(ctx context.Context) error {
		return every(ways, func(from, to string) error { return n.Join(ctx, from, to) })
	}}, err
}

// slowed shapes ways until the fault is healed.
func slowed(ctx context.Context, n target.Shaping, ways []way, s target.Shape) (Fault, error) {
	bit, err := felt(ctx, n)
	if err != nil {
		return Fault{}, err
	}
	err = every(ways, func(from, to string) error { return n.Shape(ctx, from, to, s) })
	return Fault{Bit: bit, Heal: func(ctx context.Context) error {
		return every(ways, func(from, to string) error { return n.Shape(ctx, from, to, target.Shape{}) })
	}}, err
}

func lossy(ctx context.Context, s *Scene, n target.Packets, c Choice) (Fault, error) {
	bit, err := felt(ctx, n)
	if err != nil {
		return Fault{}, err
	}
	ways := around(c.Nodes, ids(s.Cluster))
	lose := func(ctx context.Context, share float64) error {
		return every(ways, func(from, to string) error { return n.LosePackets(ctx, from, to, share) })
	}
	return Fault{Bit: bit, Heal: func(ctx context.Context) error { return lose(ctx, 0) }}, lose(ctx, float64(1+c.Pick%20)/100)
}

// flapEvery is how long links stay cut, and joined, of a node that flaps.
const flapEvery = 300 * time.Millisecond

func flapping(ctx context.Context, s *Scene, n target.Network, c Choice) (Fault, error) {
	bit, err := felt(ctx, n)
	if err != nil {
		return Fault{}, err
	}
	ways := around(c.Nodes, ids(s.Cluster))
	heal := alternate(ctx, flapEvery, flapEvery,
		func(ctx context.Context) error {
			return every(ways, func(from, to string) error { return n.Cut(ctx, from, to) })
		},
		func(ctx context.Context) error {
			return every(ways, func(from, to string) error { return n.Join(ctx, from, to) })
		})
	return Fault{Bit: bit, Heal: heal}, nil
}

func unplugged(ctx context.Context, s *Scene, u target.Unplugging, c Choice) (Fault, error) {
	node := c.Nodes[0]
	err := u.Unplug(ctx, node)
	return Fault{
		Heal: func(ctx context.Context) error { return u.Plug(ctx, node) },
		Bit: func(ctx context.Context) (string, bool, error) {
			waiting, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			if err := s.Cluster.WaitReady(waiting, node); err != nil {
				return "the node cannot be reached", true, nil // that is the proof
			}
			return "the node answers", false, nil
		},
	}, err
}

// felt returns a Bit that asks whether the network has touched anything since.
func felt(ctx context.Context, n target.Network) (func(context.Context) (string, bool, error), error) {
	before, err := n.Touched(ctx)
	return func(ctx context.Context) (string, bool, error) {
		after, err := n.Touched(ctx)
		return fmt.Sprintf("%d packets, bytes or links were touched", after-before), after > before, err
	}, err
}

// every calls do for every way, and returns all errors.
func every(ways []way, do func(from, to string) error) error {
	errs := make([]error, 0, len(ways))
	for _, w := range ways {
		errs = append(errs, do(w[0], w[1]))
	}
	return errors.Join(errs...)
}

// alternate puts a fault in and takes it out, over and over, until heal is called, which takes
// it out for good. The first error ends it and is heal's.
func alternate(ctx context.Context, in, out time.Duration, put, undo func(context.Context) error) (heal func(context.Context) error) {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		working := context.WithoutCancel(ctx)
		for ctx.Err() == nil {
			err := put(working)
			_ = wait.For(ctx, in)
			if err = errors.Join(err, undo(working)); err != nil {
				ended <- err
				return
			}
			_ = wait.For(ctx, out)
		}
		ended <- nil
	}()
	return func(context.Context) error {
		stop()
		return <-ended
	}
}
