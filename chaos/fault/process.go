package fault

import (
	"context"
	"errors"
	"time"

	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/each"
)

// pollEvery is how often a condition is checked.
const pollEvery = 20 * time.Millisecond

// processKinds are the faults of processes.
func processKinds() []Kind {
	return []Kind{
		using(Kind{
			Name: "kill", Does: "ends processes with SIGKILL and starts them again, in any order", Class: "killed",
			Shortest: time.Second, Longest: 4 * time.Second,
		}, "end processes", kill),
		using(Kind{
			Name: "pause", Does: "stops processes where they stand", Class: "paused",
			Shortest: time.Second, Longest: 4 * time.Second,
		}, "pause processes", pause),
		using(Kind{
			Name: "restart", Does: "drains processes one after another and starts each again", Class: "restarted",
			Longest: time.Second,
		}, "end processes", restart),
		using(Kind{
			Name: "drain", Does: "has operators drain nodes one after another, ends each and starts it again", Class: "restarted",
			Longest: time.Second,
		}, "end processes", drain),
		using(Kind{
			Name: "rollout", Does: "restarts all nodes as an upgrade does, one after another", Roles: []Role{All}, Class: "restarted", Alone: true,
			Longest: time.Second,
		}, "roll out", rollout),
		using(Kind{
			Name: "evict", Does: "closes a node's machine for new work and evicts the node, as before maintenance", Class: "restarted",
			Roles: []Role{Leader, Follower, Anyone}, Alone: true, Named: true, Shortest: time.Second, Longest: 4 * time.Second,
		}, "evict nodes from machines", evict),
		using(Kind{
			Name: "strobe", Does: "stops processes for 250 ms and lets them go on for 150, over and over", Class: "flapping", Roles: []Role{Leader, Follower, Anyone},
			Shortest: 2 * time.Second, Longest: 6 * time.Second,
		}, "pause processes", strobe),
	}
}

func kill(ctx context.Context, s *Scene, p target.Processes, c Choice) (Fault, error) {
	bit := endsProcesses(ctx, s, c.Nodes)
	err := each.Of(c.Nodes, 1, func(n string) error { return p.Kill(ctx, n) })
	back := rotated(c.Nodes, c.Pick) // a cluster comes back in any order
	return Fault{Bit: bit, Heal: func(ctx context.Context) error {
		return each.Of(back, 1, func(n string) error { return p.Start(ctx, n) })
	}}, err
}

func pause(ctx context.Context, s *Scene, p target.Pausing, c Choice) (Fault, error) {
	err := each.Of(c.Nodes, 1, func(n string) error { return p.Pause(ctx, n) })
	return Fault{Bit: silent(s, c.Nodes), Heal: func(ctx context.Context) error {
		return each.Of(c.Nodes, 1, func(n string) error { return p.Resume(ctx, n) })
	}}, err
}

func strobe(ctx context.Context, s *Scene, p target.Pausing, c Choice) (Fault, error) {
	return Fault{Bit: hesitant(s, c.Nodes), Heal: alternate(ctx, 250*time.Millisecond, 150*time.Millisecond,
		func(ctx context.Context) error {
			return each.Of(c.Nodes, 1, func(n string) error { return p.Pause(ctx, n) })
		},
		func(ctx context.Context) error {
			return each.Of(c.Nodes, 1, func(n string) error { return p.Resume(ctx, n) })
		},
	)}, nil
}

const (
	// stopTimeout bounds the time that a node needs to drain, to stop, and to be ready again.
	stopTimeout = 3 * time.Minute
	// drainTimeout bounds a drain by an operator.
	drainTimeout = time.Minute
)

// oneByOne lets nodes be restarted one after another, each when the one before is ready, while other faults
// come and go.
func oneByOne(ctx context.Context, s *Scene, nodes []string, restart func(ctx context.Context, node string) error) Fault {
	anew := endsProcesses(ctx, s, nodes)
	var failed error // once done is closed
	done := make(chan struct{})
	begun := context.WithoutCancel(ctx)
	go func() {
		defer close(done)
		failed = each.Of(nodes, 1, func(n string) error {
			ctx, cancel := context.WithTimeout(begun, stopTimeout)
			defer cancel()
			return restart(ctx, n)
		})
	}()
	heal := func(ctx context.Context) error {
		select {
		case <-done:
			return failed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return Fault{Last: true, Heal: heal, Bit: func(ctx context.Context) (string, bool, error) {
		_ = heal(ctx) // why it failed is for the healing
		return anew(ctx)
	}}
}

func restart(ctx context.Context, s *Scene, p target.Processes, c Choice) (Fault, error) {
	return oneByOne(ctx, s, c.Nodes, func(ctx context.Context, n string) error {
		return errors.Join(p.Stop(ctx, n), p.Start(ctx, n), s.Cluster.WaitReady(ctx, n))
	}), nil
}

// drain has each node drained over the API first, as operators do before they stop it.
func drain(ctx context.Context, s *Scene, p target.Processes, c Choice) (Fault, error) {
	return oneByOne(ctx, s, c.Nodes, func(ctx context.Context, n string) error {
		op, err := s.Client.StartDrain(ctx, client.StartDrainRequest{Node: n, Limit: drainTimeout})
		if err == nil {
			_, err = s.Client.WatchOperation(ctx, op.ID, func(client.Operation) {})
		}
		if err != nil {
			s.Log("drain of node %s: %v", n, err)
		}
		return errors.Join(p.Stop(ctx, n), p.Start(ctx, n), s.Cluster.WaitReady(ctx, n))
	}), nil
}

func rollout(ctx context.Context, s *Scene, r target.Rollouts, _ Choice) (Fault, error) {
	bit := endsProcesses(ctx, s, ids(s.Cluster))
	err := r.Rollout(ctx)
	return Fault{Bit: bit, Heal: func(ctx context.Context) error { return whole(ctx, s) }}, err
}

func evict(ctx context.Context, s *Scene, m target.Machines, c Choice) (Fault, error) {
	node := c.Nodes[0]
	bit := endsProcesses(ctx, s, c.Nodes[:1])
	err := m.Evict(ctx, node)
	return Fault{Bit: bit, Heal: func(ctx context.Context) error {
		return errors.Join(m.Return(ctx, node), s.Cluster.WaitReady(ctx, node))
	}}, err
}
