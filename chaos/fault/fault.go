// Package fault holds the kinds of faults, and the schedules that a seed makes of them.
package fault

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/client"
)

// Role chooses the nodes that are hit, by the leadership of the queue at that moment.
type Role string

// The roles.
const (
	Leader   Role = "leader"
	Follower Role = "follower"
	Anyone   Role = "anyone"
	Majority Role = "majority" // the leader and as many others as make a majority
	All      Role = "all"
)

// roles returns all roles.
func roles() []Role { return []Role{Leader, Follower, Anyone, Majority, All} }

// Scene is where a fault is put in.
type Scene struct {
	Cluster target.Cluster
	// Client reaches all nodes.
	Client *client.Client
	// Queue is the queue whose leader and followers are meant.
	Queue, VHost string
	// Changes is held while a workload changes members of queues. What it changes after the fault has begun leaves all
	// members where they are that are needed.
	Changes sync.Locker
	Log     func(format string, args ...any)
}

// Choice is what a schedule has drawn for one fault.
type Choice struct {
	Nodes []string      // that are hit, the leader first if it is among them
	For   time.Duration // until it is healed
	Pick  uint64        // more randomness, for what the kind chooses by itself
}

// Fault is one that was put in.
type Fault struct {
	// Heal ends it. It waits until what it started again runs, not until it is ready.
	Heal func(ctx context.Context) error
	// Last means that Heal waits for something that needs other nodes: it is called when no other fault lasts that is
	// not Last too.
	Last bool
	// Bit returns what proves that the fault was felt, and false if nothing does: it is asked
	// before Heal, and may wait for what a node has to notice.
	Bit func(ctx context.Context) (proof string, bit bool, err error)
	// Added are nodes that the fault had the cluster take in; Heal may take them away again.
	Added []string
}

// Kind is a kind of fault.
type Kind struct {
	Name  string
	Does  string // one line
	Roles []Role // that make sense; empty: all
	// Class is what the limits of pauses are given for; see check.PauseLimits. Empty: none.
	Class string
	// Needs returns nil if the cluster has the abilities, else what it lacks.
	Needs func(c target.Cluster) error
	// Put puts it in.
	Put func(ctx context.Context, s *Scene, c Choice) (Fault, error)
	// Alone means that no other fault lasts at the same time: what this one takes away, or needs to be healed, is all
	// that a minority may lack.
	Alone bool
	// Named means that a cluster that is already there gets it only if it is asked for by its name: it destroys what
	// a node has stored, or touches more than the cluster.
	Named bool
	// Chance means that nothing may show the fault although it was put in, for example because nobody reads what it
	// hit.
	Chance bool
	// Long means that it takes half a minute and more, with its healing: it comes half as often as others.
	Long bool
	// Shortest and Longest bound how long it lasts.
	Shortest, Longest time.Duration
}

// Kinds returns all kinds in order of their names.
func Kinds() []Kind {
	out := slices.Concat(processKinds(), networkKinds(), diskKinds(), callKinds(), dataKinds(), machineKinds(), memberKinds())
	slices.SortFunc(out, func(a, b Kind) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// using completes a kind that takes the ability A; lacks says what a driver without it cannot.
func using[A any](k Kind, lacks string, put func(context.Context, *Scene, A, Choice) (Fault, error)) Kind {
	able := func(c target.Cluster) (A, error) {
		a, has := c.(A)
		if !has {
			return a, errors.New("fault: the cluster's driver cannot " + lacks)
		}
		if p, partial := c.(target.Partial); partial {
			return a, p.Lacks((*A)(nil))
		}
		return a, nil
	}
	k.Needs = func(c target.Cluster) error {
		_, err := able(c)
		return err
	}
	k.Put = func(ctx context.Context, s *Scene, c Choice) (Fault, error) {
		a, err := able(s.Cluster)
		if err != nil {
			return Fault{}, err
		}
		return put(ctx, s, a, c)
	}
	return k
}

// rotated returns the nodes beginning at another one.
func rotated(nodes []string, pick uint64) []string {
	if len(nodes) == 0 {
		return nil
	}
	i := int(pick % uint64(len(nodes)))
	return slices.Concat(nodes[i:], nodes[:i])
}
