package fault

import (
	"context"
	"errors"
	"time"

	"github.com/quorate/quorate/chaos/target"
)

// processKinds are the faults of processes.
func processKinds() []Kind {
	return []Kind{
		using(Kind{
			Name: "kill", Does: "ends processes with SIGKILL and starts them again, in any order", Class: "killed",
			Shortest: time.Second, Longest: 4 * time.Second,
		}, "end processes", kill),
		using(Kind{
			Name: "pause", Does: "stops processes where they stand", Class: "paused", Roles: []Role{Leader, Follower, Anyone},
			Shortest: time.Second, Longest: 4 * time.Second,
		}, "pause processes", pause),
		using(Kind{
			Name: "restart", Does: "drains processes one after another and starts each again", Class: "restarted",
			Longest: time.Second,
		}, "end processes", restart),
		using(Kind{
			Name: "strobe", Does: "stops processes for 250 ms and lets them go on for 150, over and over", Class: "paused", Roles: []Role{Leader, Follower, Anyone},
			Shortest: 2 * time.Second, Longest: 6 * time.Second,
		}, "pause processes", strobe),
	}
}

func kill(ctx context.Context, _ *Scene, p target.Processes, c Choice) (Fault, error) {
	err := each(c.Nodes, func(n string) error { return p.Kill(ctx, n) })
	back := rotated(c.Nodes, c.Pick) // a cluster comes back in any order
	return Fault{Heal: func(ctx context.Context) error {
		return each(back, func(n string) error { return p.Start(ctx, n) })
	}}, err
}

func pause(ctx context.Context, _ *Scene, p target.Pausing, c Choice) (Fault, error) {
	err := each(c.Nodes, func(n string) error { return p.Pause(ctx, n) })
	return Fault{Heal: func(ctx context.Context) error {
		return each(c.Nodes, func(n string) error { return p.Resume(ctx, n) })
	}}, err
}

func strobe(ctx context.Context, _ *Scene, p target.Pausing, c Choice) (Fault, error) {
	return Fault{Heal: alternate(ctx, 250*time.Millisecond, 150*time.Millisecond,
		func(ctx context.Context) error { return each(c.Nodes, func(n string) error { return p.Pause(ctx, n) }) },
		func(ctx context.Context) error {
			return each(c.Nodes, func(n string) error { return p.Resume(ctx, n) })
		},
	)}, nil
}

// stopTimeout bounds a node's drain.
const stopTimeout = 60 * time.Second

func restart(ctx context.Context, s *Scene, p target.Processes, c Choice) (Fault, error) {
	err := each(c.Nodes, func(n string) error {
		stopping, cancel := context.WithTimeout(ctx, stopTimeout)
		defer cancel()
		return errors.Join(p.Stop(stopping, n), p.Start(ctx, n), s.Cluster.WaitReady(stopping, n))
	})
	return Fault{Heal: func(context.Context) error { return nil }}, err
}
