package fault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/chaos/target"
)

// syncDelay is how much longer each sync takes on a disk that is evenly slow.
const syncDelay = 300 * time.Millisecond

// callKinds are the faults of single writes and syncs of a node's log. Each is counted by what hits the calls.
func callKinds() []Kind {
	one := []Role{Leader, Follower, Anyone}
	tampered := func(name, does, class string, longest time.Duration, ends bool, how func(c Choice) target.Tampering) Kind {
		return using(Kind{
			Name: name, Does: does, Roles: one, Class: class, Shortest: time.Second, Longest: longest,
		}, "tamper with calls", func(ctx context.Context, s *Scene, t target.Calls, c Choice) (Fault, error) {
			return tamper(ctx, s, t, c.Nodes[0], how(c), ends)
		})
	}
	always := func(t target.Tampering) func(Choice) target.Tampering {
		return func(Choice) target.Tampering { return t }
	}
	return []Kind{
		tampered("write-fails", "lets one write to a node's log answer EIO", "disk failed", 4*time.Second, true,
			always(target.Tampering{Call: target.Write, Times: 1})),
		tampered("sync-fails", "lets one sync of a node's log answer EIO", "disk failed", 4*time.Second, true,
			always(target.Tampering{Call: target.Sync, Times: 1})),
		tampered("sync-fails-always", "lets every sync of a node's log answer EIO", "disk failed", 4*time.Second, true,
			always(target.Tampering{Call: target.Sync})),
		tampered("sync-slow", "lets each sync of a node's log take 300 ms longer", "", 6*time.Second, false,
			always(target.Tampering{Call: target.Sync, Delay: syncDelay})),
		tampered("torn-write", "ends a node in the middle of a write to its log, of which a part reached the disk", "killed", 4*time.Second, true,
			func(c Choice) target.Tampering {
				return target.Tampering{Call: target.Write, Times: 1, Tear: float64(1+c.Pick%99) / 100}
			}),
	}
}

// tamper hits a node's calls until it is healed. It was felt if calls were hit, and the process ended
// if that must end it.
func tamper(ctx context.Context, s *Scene, t target.Calls, node string, how target.Tampering, ends bool) (Fault, error) {
	before, err := t.Tampered(ctx, node)
	if err != nil {
		return Fault{}, err
	}
	least := uint64(1)
	if ends && how.Times == 0 {
		least = 2
	}
	err = t.Tamper(ctx, node, how)
	return Fault{
		Heal: func(ctx context.Context) error {
			return errors.Join(t.Tamper(ctx, node, target.Tampering{}), revive(ctx, s.Cluster, t, []string{node}))
		},
		Bit: func(ctx context.Context) (string, bool, error) {
			ended := ends && gone(ctx, t, node, endTimeout)
			if ended && how.Times == 0 { // a supervisor tries once more, and the disk still fails
				if err := t.Start(ctx, node); err != nil {
					return "", false, err
				}
				ended = gone(ctx, t, node, endTimeout)
			}
			after, err := t.Tampered(ctx, node)
			return fmt.Sprintf("calls of %s that were hit: %d; the process ended: %v", how.Call, after-before, ended), after-before >= least && ended == ends, err
		},
	}, err
}
