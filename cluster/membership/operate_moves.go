package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/cluster/placement"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
)

// maxParallelMoves bounds the queues of one operation whose members or leaders move at the
// same time.
const maxParallelMoves = 16

// balanceRounds bounds how often leaders are looked at while they are balanced: some may
// be unknown for a moment, or move by themselves.
const balanceRounds = 3

// leaderWait bounds the wait for the leaders of queues that were moved.
const leaderWait = 10 * time.Second

// ledState is the Placer's state once the leaders of the queues that were moved are known: a
// queue between two leaders counts for neither, and the plan would move others in its
// place. After leaderWait it is planned without those that have none yet.
func (o *Operator) ledState(ctx context.Context, f QueueFilter, moved []placement.Move) placement.State {
	begun := time.Now()
	for {
		s := o.cfg.Placer.state(f.Matches, nil)
		between := slices.ContainsFunc(s.Groups, func(g placement.Group) bool {
			return g.Leader == "" && slices.ContainsFunc(moved, func(m placement.Move) bool { return m.Group == g.UID })
		})
		if !between || time.Since(begun) > leaderWait || wait.For(ctx, joinTick) != nil {
			return s
		}
	}
}

// Grow makes a node a member of all queues that the filter chooses.
func (o *Operator) Grow(ctx context.Context, n id.NodeID, f QueueFilter, report func(operation.Progress)) error {
	if err := o.checkOperation(f, n); err != nil {
		return err
	}
	moves := placement.Grow(o.cfg.Placer.state(f.Matches, nil), n)
	return o.move(ctx, moves, report, func(ctx context.Context, m placement.Move, report func(operation.Progress)) error {
		return o.AddMember(ctx, m.Group, m.Join, report)
	})
}

// PlanRebalance returns what Rebalance would do now: moves of members, and then transfers of leaders.
// Leaders of queues whose leading member moves are not in it, because nobody knows yet which leader these queues will
// elect; Rebalance spreads them too.
func (o *Operator) PlanRebalance(f QueueFilter, leadersOnly bool) ([]placement.Move, []placement.Transfer) {
	s := o.cfg.Placer.state(f.Matches, nil)
	var moves []placement.Move
	if !leadersOnly {
		moves = placement.Spread(s)
	}
	return moves, placement.Balance(s.After(moves))
}

// Rebalance spreads members, unless leadersOnly is set, and then leaders of the queues that the
// filter chooses evenly over the nodes that run and do not drain.
func (o *Operator) Rebalance(ctx context.Context, f QueueFilter, leadersOnly bool, report func(operation.Progress)) error {
	if err := o.checkOperation(f); err != nil {
		return err
	}
	var moves []placement.Move
	if !leadersOnly {
		moves = placement.Spread(o.cfg.Placer.state(f.Matches, nil))
	}
	err := o.move(ctx, moves, report,
		func(ctx context.Context, m placement.Move, report func(operation.Progress)) error {
			return o.ReplaceMember(ctx, m.Group, m.Leave, m.Join, report)
		})
	// Members that moved have let leadership go wherever it went.
	for range balanceRounds {
		transfers := placement.Balance(o.ledState(ctx, f, moves))
		if len(transfers) == 0 || ctx.Err() != nil {
			break
		}
		moves = make([]placement.Move, len(transfers))
		for i, t := range transfers {
			moves[i] = placement.Move{Group: t.Group, Join: t.To, Leave: t.From}
		}
		err = errors.Join(err, o.move(ctx, moves, report, func(ctx context.Context, m placement.Move, _ func(operation.Progress)) error {
			return o.cfg.Leaders.Transfer(ctx, m.Group, m.Join)
		}))
	}
	return err
}

// checkOperation refuses a filter that cannot be read and nodes that nobody knows.
func (o *Operator) checkOperation(f QueueFilter, nodes ...id.NodeID) error {
	var errs []error
	if err := f.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("cluster: pattern %q for names of queues: %w: see path.Match", f.Name, err))
	}
	for _, n := range nodes {
		if _, registered := o.cfg.Views.View().Node(n); !registered {
			errs = append(errs, fmt.Errorf("cluster: node %q is not registered in the cluster", n))
		}
	}
	return errors.Join(errs...)
}

// move makes moves, one for each queue and maxParallelMoves at a time, and reports how
// many are made. One that fails does not keep the others from being made.
func (o *Operator) move(
	ctx context.Context, moves []placement.Move, report func(operation.Progress),
	one func(context.Context, placement.Move, func(operation.Progress)) error,
) error {
	var mu sync.Mutex // guards what follows, and calls of report
	p := operation.Progress{Phase: PhaseMove, Total: int64(len(moves)), Unit: "queues"}
	var errs []error
	progress := func(detail string, done int64) {
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
			err := one(ctx, m, func(p operation.Progress) { progress(p.Detail, 0) })
			if errors.Is(err, traffic.ErrNoSuchQueue) {
				err = nil // it was deleted
			}
			if err != nil {
				mu.Lock()
				errs = append(errs, fmt.Errorf("%s: %w", o.named([]id.QueueUID{m.Group}), err))
				mu.Unlock()
			}
			progress("", 1)
		})
	}
	work.Wait()
	if len(errs) > maxNamed {
		errs = append(errs[:maxNamed], fmt.Errorf("and %d more", len(errs)-maxNamed))
	}
	return errors.Join(append(errs, ctx.Err())...)
}

// named returns the names of queues, not too many.
func (o *Operator) named(uids []id.QueueUID) string {
	v := o.cfg.Views.View()
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
