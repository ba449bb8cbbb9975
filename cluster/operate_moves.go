package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/placement"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// maxParallelMoves bounds the queues of one operation whose members or leaders move at the
// same time.
const maxParallelMoves = 4

// balanceRounds bounds how often leaders are looked at while they are balanced: some may
// be unknown for a moment, or move by themselves.
const balanceRounds = 3

// leaderWait bounds the wait for the leaders of queues that were moved.
const leaderWait = 10 * time.Second

// placementState returns what plans are made from: all durable queues, those movable that the
// filter chooses and that do not change just now. Nodes that drain, or do not answer, get
// nothing.
func (c *Cluster) placementState(movable func(*catalog.QueueRecord) bool, lost map[id.NodeID]bool) placement.State {
	return c.placementFrom(c.askNodes(), movable, lost)
}

// placementFrom is placementState of what nodes have answered.
func (c *Cluster) placementFrom(
	answers map[id.NodeID]*nodev1.NodeStatusResponse, movable func(*catalog.QueueRecord) bool, lost map[id.NodeID]bool,
) placement.State {
	s := placement.State{Nodes: c.candidates()}
	leaders := map[id.QueueUID]id.NodeID{}
	for n, a := range answers {
		for _, g := range a.GetGroups() {
			if g.GetLeader() == string(n) && g.GetFailed() == "" {
				leaders[id.QueueUID(g.GetGroup())] = n
			}
		}
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		a, answered := answers[n.Node]
		n.Lost = lost[n.Node]
		n.Alive = answered && !a.GetDraining()
	}
	for r := range c.View().Queues() {
		if !r.Durable {
			continue // it stays on its node
		}
		s.Groups = append(s.Groups, placement.Group{
			UID: r.UID, Members: r.Members, Leader: leaders[r.UID], Preferred: r.Leader,
			Fixed: r.Change != nil || !movable(r),
		})
	}
	return s
}

// ledState is placementState once the leaders of the queues that were moved are known: a
// queue between two leaders counts for neither, and the plan would move others in its
// place. After leaderWait it is planned without those that have none yet.
func (c *Cluster) ledState(ctx context.Context, f QueueFilter, moved []placement.Move) placement.State {
	begun := time.Now()
	for {
		s := c.placementState(f.Matches, nil)
		between := slices.ContainsFunc(s.Groups, func(g placement.Group) bool {
			return g.Leader == "" && slices.ContainsFunc(moved, func(m placement.Move) bool { return m.Group == g.UID })
		})
		if !between || time.Since(begun) > leaderWait || wait.For(ctx, joinTick) != nil {
			return s
		}
	}
}

// askNodes asks the registered nodes, this one included, what they host; those that answer.
func (c *Cluster) askNodes() map[id.NodeID]*nodev1.NodeStatusResponse {
	var mu sync.Mutex
	answers := map[id.NodeID]*nodev1.NodeStatusResponse{}
	var asked sync.WaitGroup
	for n := range c.View().Nodes() {
		_, up := c.mux.Connected(n.ID)
		if !up && n.ID != c.cfg.Node {
			continue
		}
		asked.Go(func() {
			var a *nodev1.NodeStatusResponse
			var err error
			if n.ID == c.cfg.Node {
				a, err = calls{c: c}.NodeStatus(c.ctx, &nodev1.NodeStatusRequest{})
			} else {
				a, err = c.catalog.ask(n.ID)
			}
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				answers[n.ID] = a
			}
		})
	}
	asked.Wait()
	return answers
}

// Grow makes a node a member of all queues that the filter chooses.
func (c *Cluster) Grow(ctx context.Context, n id.NodeID, f QueueFilter, report func(Progress)) error {
	if err := c.checkOperation(f, n); err != nil {
		return err
	}
	moves := placement.Grow(c.placementState(f.Matches, nil), n)
	return c.move(ctx, moves, report, func(ctx context.Context, m placement.Move, report func(Progress)) error {
		return c.AddMember(ctx, m.Group, m.Join, report)
	})
}

// Shrink takes a node out of all queues that the filter chooses; with keepSize another
// node, which is none of exclude, takes its place in each. Queues for which there is none, and those of which the node
// is the only member, stay as they are and are named in the error.
func (c *Cluster) Shrink(ctx context.Context, n id.NodeID, f QueueFilter, keepSize bool, exclude []id.NodeID, report func(Progress)) error {
	if err := c.checkOperation(f, append(slices.Clone(exclude), n)...); err != nil {
		return err
	}
	moves, stay := c.planShrink(n, f, keepSize, exclude)
	err := c.takeOut(ctx, moves, keepSize, report)
	if len(stay) > 0 {
		err = errors.Join(err, fmt.Errorf("cluster: node %q stays a member of %s: there is no other node that could take its place",
			n, c.named(stay)))
	}
	return err
}

// Rebalance spreads members and then leaders of the queues that the filter chooses
// evenly over the nodes that run and do not drain.
func (c *Cluster) Rebalance(ctx context.Context, f QueueFilter, report func(Progress)) error {
	if err := c.checkOperation(f); err != nil {
		return err
	}
	moves := placement.Spread(c.placementState(f.Matches, nil))
	err := c.move(ctx, moves, report,
		func(ctx context.Context, m placement.Move, report func(Progress)) error {
			return c.ReplaceMember(ctx, m.Group, m.Leave, m.Join, report)
		})
	// Members that moved have let leadership go wherever it went.
	for range balanceRounds {
		transfers := placement.Balance(c.ledState(ctx, f, moves))
		if len(transfers) == 0 || ctx.Err() != nil {
			break
		}
		moves = make([]placement.Move, len(transfers))
		for i, t := range transfers {
			moves[i] = placement.Move{Group: t.Group, Join: t.To, Leave: t.From}
		}
		err = errors.Join(err, c.move(ctx, moves, report, func(ctx context.Context, m placement.Move, _ func(Progress)) error {
			return c.leaders.Transfer(ctx, m.Group, m.Join)
		}))
	}
	return err
}

// ForgetNode takes a node out of the cluster for good. It is refused while the node is a
// member of queues, unless replace is set: then other nodes take its place first. A node
// that runs is refused as well: stop it first.
func (c *Cluster) ForgetNode(ctx context.Context, n id.NodeID, replace bool, report func(Progress)) error {
	if err := c.checkOperation(QueueFilter{}, n); err != nil {
		return err
	}
	if _, up := c.mux.Connected(n); up || n == c.cfg.Node {
		return fmt.Errorf("cluster: node %q runs: stop it for good before the cluster forgets it", n)
	}
	if report == nil {
		report = func(Progress) {}
	}
	if replace {
		if err := c.Shrink(ctx, n, QueueFilter{}, true, nil, report); err != nil {
			return err
		}
	}
	report(Progress{Phase: PhaseForget, Detail: fmt.Sprintf("node %q", n)})
	_, err := c.ProposeCatalog(ctx, &catalog.ForgetNode{ID: n})
	return err
}

// checkOperation refuses a filter that cannot be read and nodes that nobody knows.
func (c *Cluster) checkOperation(f QueueFilter, nodes ...id.NodeID) error {
	var errs []error
	if err := f.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("cluster: pattern %q for names of queues: %w: see path.Match", f.Name, err))
	}
	for _, n := range nodes {
		if _, registered := c.View().Node(n); !registered {
			errs = append(errs, fmt.Errorf("cluster: node %q is not registered in the cluster", n))
		}
	}
	return errors.Join(errs...)
}

// move makes moves, one for each queue and maxParallelMoves at a time, and reports how
// many are made. One that fails does not keep the others from being made.
func (c *Cluster) move(
	ctx context.Context, moves []placement.Move, report func(Progress),
	one func(context.Context, placement.Move, func(Progress)) error,
) error {
	var mu sync.Mutex // guards what follows, and calls of report
	p := Progress{Phase: PhaseMove, Total: int64(len(moves)), Unit: "queues"}
	var errs []error
	tell := func(detail string, done int64) {
		mu.Lock()
		defer mu.Unlock()
		if p.Done += done; detail != "" {
			p.Detail = detail
		}
		if report != nil {
			report(p)
		}
	}
	var work sync.WaitGroup
	slots := make(chan struct{}, maxParallelMoves)
	for _, m := range moves {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		work.Go(func() {
			defer func() { <-slots }()
			err := one(ctx, m, func(p Progress) { tell(p.Detail, 0) })
			if errors.Is(err, traffic.ErrNoSuchQueue) {
				err = nil // it was deleted
			}
			if err != nil {
				mu.Lock()
				errs = append(errs, fmt.Errorf("%s: %w", c.named([]id.QueueUID{m.Group}), err))
				mu.Unlock()
			}
			tell("", 1)
		})
	}
	work.Wait()
	if len(errs) > maxNamed {
		errs = append(errs[:maxNamed], fmt.Errorf("and %d more", len(errs)-maxNamed))
	}
	return errors.Join(append(errs, ctx.Err())...)
}

// named returns the names of queues, not too many.
func (c *Cluster) named(uids []id.QueueUID) string {
	v := c.View()
	var out []string
	for i, uid := range uids {
		if i == maxNamed {
			out = append(out, fmt.Sprintf("and %d more", len(uids)-maxNamed))
			break
		}
		if r, ok := v.QueueByUID(uid); ok {
			out = append(out, fmt.Sprintf("queue %q in vhost %q", r.Name, r.VHost))
		} else {
			out = append(out, "queue "+uid.String())
		}
	}
	return strings.Join(out, ", ")
}
