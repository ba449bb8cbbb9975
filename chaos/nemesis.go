package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/quorate/quorate/client"
)

// FaultKind is what is done to a node.
type FaultKind string

// The faults.
const (
	Kill    FaultKind = "kill"    // SIGKILL, started again later
	Pause   FaultKind = "pause"   // SIGSTOP, SIGCONT later
	Restart FaultKind = "restart" // SIGTERM with its drain, started again at once
	// Change is Kill while the queue's members change: one of them, perhaps on the node
	// that is hit, is built anew.
	Change FaultKind = "change"
)

// Role chooses the node that is hit, by the queue's leadership at that moment.
type Role string

// The roles.
const (
	Leader   Role = "leader"
	Follower Role = "follower"
	Anyone   Role = "anyone"
)

// Step is one fault of a schedule.
type Step struct {
	At   time.Duration // since the schedule's beginning; later if the last one still heals
	Kind FaultKind
	Role Role
	For  time.Duration // until it is healed
	Pick int           // chooses among several nodes of the role
}

const (
	calm        = 3 * time.Second // before the first fault and after the last
	meanSpacing = 6 * time.Second
)

// Schedule returns the faults for a run of this length: the same ones for the same seed.
func Schedule(seed uint64, length time.Duration) []Step {
	r := rand.New(rand.NewPCG(seed, 0))
	kinds := []FaultKind{Kill, Kill, Pause, Restart, Change, Change}
	roles := []Role{Leader, Leader, Follower, Anyone}
	var out []Step
	for at := calm; at < length-calm; at += meanSpacing/2 + time.Duration(r.Int64N(int64(meanSpacing))) {
		out = append(out, Step{
			At: at, Kind: kinds[r.IntN(len(kinds))], Role: roles[r.IntN(len(roles))],
			For: time.Second + time.Duration(r.Int64N(int64(3*time.Second))), Pick: r.IntN(1 << 16),
		})
	}
	return out
}

// healTimeout bounds the wait for a hit node to be ready again.
const healTimeout = 60 * time.Second

// nemesis hits one node at a time, so that a majority is always left.
type nemesis struct {
	cluster *Cluster
	client  *client.Client
	history *History
	queue   string
	log     func(format string, args ...any)
}

// run goes through the schedule until ctx ends; a node that is hit is healed first.
func (n *nemesis) run(ctx context.Context, steps []Step) error {
	begin := time.Now()
	for _, s := range steps {
		if !sleep(ctx, s.At-time.Since(begin)) {
			return nil
		}
		target, err := n.target(ctx, s)
		if over(ctx) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := n.hit(ctx, target, s); err != nil {
			return err
		}
	}
	return nil
}

func (n *nemesis) target(ctx context.Context, s Step) (*Node, error) {
	nodes := n.cluster.Nodes
	if s.Role != Anyone {
		q, err := n.client.GetQueue(ctx, client.QueueRef{Name: n.queue})
		if err != nil {
			return nil, fmt.Errorf("chaos: who leads queue %q: %w", n.queue, err)
		}
		var followers []*Node
		for _, x := range n.cluster.Nodes {
			if x.ID != q.Leader {
				followers = append(followers, x)
			}
		}
		if leader := n.cluster.Node(q.Leader); leader != nil && s.Role == Leader {
			return leader, nil
		}
		nodes = followers
	}
	return nodes[s.Pick%len(nodes)], nil
}

func (n *nemesis) hit(ctx context.Context, x *Node, s Step) error {
	note := fmt.Sprintf("%s of %s", s.Kind, s.Role)
	n.log("%s: node %s for %v", note, x.ID, s.For.Round(time.Millisecond))
	n.history.Add(Event{Kind: Fault, Node: x.ID, Note: note})
	heal := x.Start
	var err error
	switch s.Kind {
	case Kill:
		err = x.Kill()
		sleep(ctx, s.For)
	case Change:
		n.change(ctx, s.Pick)
		sleep(ctx, time.Duration(s.Pick)*time.Millisecond%maxWithinChange)
		err = x.Kill()
		sleep(ctx, s.For)
	case Pause:
		err, heal = x.Pause(), x.Resume
		sleep(ctx, s.For)
	case Restart:
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), healTimeout)
		defer cancel()
		err = x.Stop(stop)
	default:
		err = fmt.Errorf("chaos: there is no fault %q", s.Kind)
	}
	if err = errors.Join(err, heal()); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), healTimeout)
	defer cancel()
	if err := x.WaitReady(wait); err != nil {
		return fmt.Errorf("chaos: node %s after %s: %w", x.ID, note, err)
	}
	n.history.Add(Event{Kind: Healed, Node: x.ID})
	return nil
}

// maxWithinChange is the longest time after the beginning of a change at which a node is
// killed; a change takes about so long.
const maxWithinChange = 300 * time.Millisecond

// change has a member of the queue built anew, and does not wait for it: it goes on while
// nodes are hit. One that is refused, since the member is the last one just now, hits nobody.
func (n *nemesis) change(ctx context.Context, pick int) {
	member := n.cluster.Nodes[(pick/len(n.cluster.Nodes))%len(n.cluster.Nodes)].ID
	_, err := n.client.ReplaceMember(ctx, client.ReplaceMemberRequest{Queue: n.queue, From: member, To: member})
	if err != nil {
		n.log("the member on node %s is not built anew: %v", member, err)
		return
	}
	n.log("the member on node %s is built anew", member)
}

// over reports whether the run has ended.
func over(ctx context.Context) bool { return ctx.Err() != nil }

// sleep waits for d, if it is not over; false if ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
