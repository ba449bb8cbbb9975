package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/chaos/target"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/wait"
)

// memberKinds are the changes that operators make, while or without something fails.
func memberKinds() []Kind {
	one := []Role{Leader, Follower, Anyone}
	// What an API call does, every cluster can have.
	called := func(k Kind, put func(context.Context, *Scene, Choice) (Fault, error)) Kind {
		k.Needs, k.Put, k.Longest = func(target.Cluster) error { return nil }, put, time.Second
		return k
	}
	return []Kind{
		called(Kind{
			Name: "transfer", Does: "lets another member lead the queue", Roles: []Role{Follower}, Class: "transferred",
		}, transfer),
		called(Kind{
			Name: "rebuild", Does: "has a member of the queue built anew", Roles: one, Class: "transferred",
		}, rebuild),
		called(Kind{
			Name: "close", Does: "has an operator close the workloads' connections to a node", Roles: one,
		}, closeConnections),
		using(Kind{
			Name: "change", Does: "has a member of the queue built anew, and kills a node meanwhile", Roles: one, Class: "members change",
			Shortest: time.Second, Longest: 4 * time.Second,
		}, "end processes", change),
		using(Kind{
			Name: "scale", Does: "adds a node and takes one out, which comes back with an empty disk in its place; where only the newest can leave, that one",
			Roles: one, Class: "scaled", Alone: true, Named: true, Long: true, Longest: 2 * time.Second,
		}, "add nodes", scale),
		using(Kind{
			Name: "build", Does: "restarts nodes one after another with another build, and then back", Roles: []Role{Anyone, Majority, All},
			Class: "restarted", Alone: true, Long: true, Longest: 2 * time.Second,
		}, "run another build", otherBuild),
	}
}

// maxWithinChange is the longest time after the beginning of a change at which a node is killed;
// a change takes about so long.
const maxWithinChange = 300 * time.Millisecond

// change does not wait for the member to be built: that continues while nodes are hit. A change that is refused,
// because the member is the last one at the moment, had no effect.
func change(ctx context.Context, s *Scene, p target.Processes, c Choice) (Fault, error) {
	node := c.Nodes[0]
	_, bit := rebuilding(ctx, s, node, c.Pick)
	_ = wait.For(ctx, time.Duration(c.Pick%uint64(maxWithinChange)))
	err := p.Kill(ctx, node)
	return Fault{Heal: func(ctx context.Context) error { return p.Start(ctx, node) }, Bit: bit}, err
}

// rebuilding has one of the queue's members rebuilt, the node's if the queue does not report its members, and does
// not wait for the end.
func rebuilding(ctx context.Context, s *Scene, node string, pick uint64) (client.StartedOperation, func(context.Context) (string, bool, error)) {
	info, err := s.Client.GetQueue(ctx, client.QueueRef{VHost: s.VHost, Name: s.Queue})
	member := node
	if err == nil && len(info.Members) > 0 {
		member = info.Members[pick%uint64(len(info.Members))]
	}
	asking, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	started, refused := s.Client.ReplaceMember(asking, client.ReplaceMemberRequest{VHost: s.VHost, Queue: s.Queue, From: member, To: member})
	return started, func(context.Context) (string, bool, error) {
		if refused != nil {
			return fmt.Sprintf("the member on node %s was not built anew: %v", member, refused), false, nil //nolint:nilerr // the refusal is what is reported
		}
		return fmt.Sprintf("the member on node %s was built anew", member), true, nil
	}
}

// rebuild waits, when it is healed, for the member. The operation ends with the node that runs it, which another fault may
// have ended; the nodes themselves see then to what it has left.
func rebuild(ctx context.Context, s *Scene, c Choice) (Fault, error) {
	started, bit := rebuilding(ctx, s, c.Nodes[0], c.Pick)
	return Fault{Bit: bit, Last: true, Heal: func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, wholeTimeout)
		defer cancel()
		if started.Operation.ID == "" {
			return nil
		}
		_, err := s.Client.WatchOperation(ctx, started.Operation.ID, nil)
		if client.ClassOf(err) == client.NotFound {
			s.Log("the member on node %s is built anew without anybody who watches: %v", c.Nodes[0], err)
			return nil
		}
		return err
	}}, nil
}

// closeConnections closes those that lead to the node and have used the workloads' vhost, and no
// others.
func closeConnections(ctx context.Context, s *Scene, c Choice) (Fault, error) {
	asking, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	closed := 0
	var errs []error
	for x, err := range s.Client.Connections(asking, client.ListConnectionsRequest{}) {
		if err != nil {
			errs = append(errs, err)
			break
		}
		if x.Node != c.Nodes[0] || !slices.Contains(strings.Split(x.VHost, ","), s.VHost) {
			continue
		}
		if err := s.Client.CloseConnection(asking, client.CloseConnectionRequest{Connection: x.ID, Reason: "chaos"}); err != nil {
			errs = append(errs, err)
			continue
		}
		closed++
	}
	return Fault{
		Heal: func(context.Context) error { return nil },
		Bit: func(context.Context) (string, bool, error) {
			return fmt.Sprintf("%d connections were closed; errors: %v", closed, errors.Join(errs...)), closed > 0, nil
		},
	}, nil
}

// transfer lets the node that is chosen lead, which must have caught up: one that has not is tried
// again for a moment.
func transfer(ctx context.Context, s *Scene, c Choice) (Fault, error) {
	node := c.Nodes[0]
	trying, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	var refused error
	for {
		refused = s.Client.TransferLeadership(trying, client.TransferLeadershipRequest{VHost: s.VHost, Queue: s.Queue, Node: node})
		if refused == nil || wait.For(trying, 5*pollEvery) != nil {
			break
		}
	}
	return Fault{
		Heal: func(context.Context) error { return nil },
		Bit: func(context.Context) (string, bool, error) {
			if refused != nil {
				return refused.Error(), false, nil //nolint:nilerr // the refusal is what is reported
			}
			return fmt.Sprintf("node %s took the queue over", node), true, nil
		},
	}, nil
}

// scale is what operators do to replace a machine, twice: before and after it the cluster has the same nodes. Where no
// other node can leave than the newest one, that one gets members of queues and leaves.
func scale(ctx context.Context, s *Scene, d target.Scaling, c Choice) (Fault, error) {
	node := c.Nodes[0]
	if err := whole(ctx, s); err != nil {
		return Fault{}, err
	}
	if d.OnlyNewest() {
		return grow(ctx, s, d)
	}
	added, err := exchange(ctx, s, d, node)
	if err != nil {
		return Fault{}, err
	}
	bit := func(context.Context) (string, bool, error) {
		return fmt.Sprintf("node %s was added, and node %s has left", added, node), true, nil
	}
	return Fault{Added: []string{added}, Bit: bit, Heal: func(ctx context.Context) error {
		back, err := exchange(ctx, s, d, added)
		if err == nil && back != node {
			err = fmt.Errorf("fault: node %s came back in place of %s", back, node)
		}
		return errors.Join(err, whole(ctx, s))
	}}, nil
}

// grow adds a node and spreads the workloads' queues over all. It leaves when that is healed.
func grow(ctx context.Context, s *Scene, d target.Scaling) (Fault, error) {
	added, err := d.Add(ctx)
	if err != nil {
		return Fault{}, err
	}
	spread := func() error {
		ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
		defer cancel()
		if err := s.Cluster.WaitReady(ctx, added); err != nil {
			return err
		}
		started, err := s.Client.RebalanceQueues(ctx, client.RebalanceQueuesRequest{Queues: client.QueueFilter{VHost: s.VHost}})
		return ended(ctx, s.Client, started, err)
	}
	return Fault{
		Added: []string{added},
		Bit: func(ctx context.Context) (string, bool, error) {
			members := known(ctx, s)[added].Replicas
			return fmt.Sprintf("node %s was added, and has %d members of queues", added, members), members > 0, nil
		},
		Heal: func(ctx context.Context) error { return errors.Join(leave(ctx, s, d, added), whole(ctx, s)) },
	}, spread()
}

// exchange adds a node, and takes another one out.
func exchange(ctx context.Context, s *Scene, d target.Scaling, out string) (added string, err error) {
	if added, err = d.Add(ctx); err != nil {
		return added, err
	}
	joining, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	if err := s.Cluster.WaitReady(joining, added); err != nil {
		return added, err
	}
	return added, leave(ctx, s, d, out)
}

// leave takes a node out: its members move to the others before the cluster forgets it. While clients change members
// too, that may be refused for a moment.
func leave(ctx context.Context, s *Scene, d target.Scaling, out string) error {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	for again := false; ; again = true {
		err := removed(ctx, s, out, again)
		if err == nil {
			return d.Remove(ctx, out)
		}
		s.Log("scale: remove %s: %v", out, err)
		if wait.For(ctx, 10*pollEvery) != nil {
			return fmt.Errorf("fault: remove node %s: %w", out, err)
		}
	}
}

// exchangeTimeout bounds the time in which a node joins and another one leaves.
const exchangeTimeout = 3 * time.Minute

// removed makes the cluster forget a node, through another one, and waits until that is done. again means that it was
// asked before, by a call whose answer may have been lost.
func removed(ctx context.Context, s *Scene, node string, again bool) error {
	var others []string
	for _, n := range s.Cluster.Nodes() {
		if n.ID != node {
			others = append(others, n.ID)
		}
	}
	c, err := client.Dial(ctx, s.Cluster.Dial(others...))
	if err != nil {
		return err
	}
	defer c.Close()
	started, err := c.RemoveNode(ctx, client.RemoveNodeRequest{Node: node})
	if again && client.ClassOf(err) == client.NotFound {
		return nil
	}
	return ended(ctx, c, started, err)
}

// ended waits for the end of an operation, if a call that may have failed has started one, and returns why it failed.
func ended(ctx context.Context, c *client.Client, started client.StartedOperation, err error) error {
	if err != nil || started.Operation == nil {
		return err
	}
	done, err := c.WatchOperation(ctx, started.Operation.ID, nil)
	if err == nil && done.Error != "" {
		err = errors.New(done.Error)
	}
	return err
}

func otherBuild(ctx context.Context, s *Scene, b target.Builds, c Choice) (Fault, error) {
	roll := func(ctx context.Context, build string) error {
		for _, n := range c.Nodes {
			if err := b.Use(ctx, n, build); err != nil {
				return err
			}
			stopping, cancel := context.WithTimeout(ctx, stopTimeout)
			err := errors.Join(b.Stop(stopping, n), b.Start(ctx, n), s.Cluster.WaitReady(stopping, n))
			cancel()
			if err != nil {
				return err
			}
		}
		return nil
	}
	bit := endsProcesses(ctx, s, c.Nodes)
	return Fault{Bit: bit, Heal: func(ctx context.Context) error { return roll(ctx, target.Current) }}, roll(ctx, target.Other)
}
