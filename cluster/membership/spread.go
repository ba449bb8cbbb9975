package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/event"
	"github.com/quorate/quorate/cluster/operation"
	"github.com/quorate/quorate/cluster/placement"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
)

// After restarts leaders pile up on the nodes that stayed. While nothing comes or goes, the
// catalog's leader spreads them again (RE-10): one at a time, leadersPerSecond, planned anew
// after every leadersBatch, as an operation that can be watched and cancelled. Queues that
// hibernate cost their leader nothing and are left alone.

const (
	// leadersPerSecond bounds how often spreading makes a queue pause, for some ten
	// milliseconds each.
	leadersPerSecond = 10
	// leadersBatch is the number of transfers that are planned at once, by what all nodes
	// lead at that moment.
	leadersBatch = 100

	// KindSpreadLeaders is the operation of SpreadLeaders.
	KindSpreadLeaders operation.Kind = "spread-leaders"

	phaseSpread string = "moving leaders"
)

// uneasy reports whether it is worth to spread leaders now.
func (rc *Reconciler) uneasy() bool {
	s := rc.leaderState(nil)
	ts, _ := placement.Ease(s, 1)
	return placement.Uneven(s) && len(ts) > 0
}

// leaderState is what spreading is planned from: the queues that are awake, and as nodes that
// run those that have started, are steady, do not drain and have room on their disks. Failed ones stay.
func (rc *Reconciler) leaderState(failed map[id.QueueUID]bool) placement.State {
	answers := rc.cfg.Placer.ask()
	s := rc.cfg.Placer.from(answers, func(r *catalog.QueueRecord) bool { return !failed[r.UID] && r.DrainDeleting == 0 }, nil)
	for i := range s.Nodes {
		n := &s.Nodes[i]
		n.Alive = n.Alive && rc.cfg.Nodes.Started(answers[n.Node]) && rc.cfg.Nodes.Steady(n.Node) && rc.cfg.Disks.Fine(n.Node)
	}
	return s
}

// SpreadLeaders starts to spread leaders, if that is worth it and does not run already.
func (rc *Reconciler) SpreadLeaders() {
	if !rc.uneasy() {
		return
	}
	op, err := rc.cfg.Operations.Start(KindSpreadLeaders, "all queues", rc.EaseLeaders)
	switch {
	case err == nil:
		rc.cfg.Logger.Info("leaders are uneven and get spread", "operation", op.ID.String(), "per_second", leadersPerSecond)
	case !errors.Is(err, operation.ErrClosed):
		rc.cfg.Logger.Warn("leaders are uneven, but cannot be spread now", "error", err)
	}
}

// EaseLeaders moves leaders until they are even. It breaks off when nodes come or go, or
// another node leads the catalog: whoever does so starts over when all is calm again.
func (rc *Reconciler) EaseLeaders(ctx context.Context, report func(operation.Progress)) error {
	p := operation.Progress{Phase: phaseSpread, Unit: unitGroups}
	failed := map[id.QueueUID]bool{}
	var errs []error
	connected := rc.connected()
	next := time.NewTicker(time.Second / leadersPerSecond)
	defer next.Stop()
	var ts []placement.Transfer
	for {
		var beyond int
		ts, beyond = placement.Ease(rc.easedState(ctx, failed, ts), leadersBatch)
		if len(ts) == 0 {
			break
		}
		p.Total = p.Done + int64(max(beyond, len(ts)))
		report(p)
		for _, t := range ts {
			select {
			case <-next.C:
			case <-ctx.Done():
				return ctx.Err()
			}
			if rc.connected() != connected || !rc.cfg.Catalog.Leads() {
				p.Detail = "broken off, as nodes came or went; it begins anew when they have been calm"
				report(p)
				return nil
			}
			moved, err := rc.cfg.Leaders.TransferFrom(ctx, t.Group, t.From, t.To)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s from node %q to %q: %w", rc.cfg.Operator.named([]id.QueueUID{t.Group}), t.From, t.To, err))
			}
			if moved {
				p.Done++
				rc.spread.Add(1)
			} else {
				failed[t.Group] = true // not again in this operation
			}
			report(p)
		}
	}
	p.Total = p.Done
	report(p)
	if p.Done > 0 {
		rc.cfg.Events.Queues().Add(event.Event{
			Kind: event.LeadersSpread, Node: rc.cfg.Node, AtMs: time.Now().UnixMilli(), Detail: fmt.Sprintf("%d queues", p.Done),
		})
	}
	if len(errs) > maxNamed {
		errs = append(errs[:maxNamed], fmt.Errorf("and %d more", len(errs)-maxNamed))
	}
	return errors.Join(errs...)
}

// easedState is leaderState once the leaders of the queues that were just moved are known, as
// in ledState.
func (rc *Reconciler) easedState(ctx context.Context, failed map[id.QueueUID]bool, moved []placement.Transfer) placement.State {
	begun := time.Now()
	for {
		s := rc.leaderState(failed)
		between := slices.ContainsFunc(s.Groups, func(g placement.Group) bool {
			return g.Leader == "" && !failed[g.UID] && slices.ContainsFunc(moved, func(t placement.Transfer) bool { return t.Group == g.UID })
		})
		if !between || time.Since(begun) > leaderWait || wait.For(ctx, joinTick) != nil {
			return s
		}
	}
}

// connected stands for the nodes that are there.
func (rc *Reconciler) connected() string {
	var there []string
	for n := range rc.cfg.View().Nodes() {
		if epoch, up := rc.cfg.Transport.Connected(n.ID); up || n.ID == rc.cfg.Node {
			there = append(there, fmt.Sprintf("%q/%d", n.ID, epoch))
		}
	}
	slices.Sort(there)
	return strings.Join(there, " ")
}

// LeadersSpread returns how many queues this node has handed over to spread leaders since
// its start.
func (rc *Reconciler) LeadersSpread() uint64 { return rc.spread.Load() }
