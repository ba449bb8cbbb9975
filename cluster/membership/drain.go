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
	"github.com/quorate/quorate/cluster/peer"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/each"
	"github.com/quorate/quorate/internal/wait"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

const (
	// drainTick is the wait between two rounds of moving leaders away.
	drainTick = 50 * time.Millisecond
	// drainAlone is how long a draining node looks for others to take over: a node that restarts may be missing for a
	// moment.
	drainAlone = time.Second
)

const (
	kindDrain operation.Kind = "drain"
	// phaseDrain is the one phase of a drain.
	phaseDrain = "moving leaders"
)

var errUndrained = errors.New("the drain was undone")

// Draining reports whether the node drains or is drained: then it takes no new work.
func (u *Unloader) Draining() bool { return u.draining.Load() }

// setDraining notes whether this node drains, and refuses leadership meanwhile: another node that drains too may have
// found before that this one stays. It returns whether the node drained before.
func (u *Unloader) setDraining(draining bool) bool {
	u.drain.Lock()
	defer u.drain.Unlock()
	u.cfg.Transport.TakeOver(!draining)
	return u.draining.Swap(draining)
}

// standing reports whether a member here stands for election, as after a leader handed over to it.
func (u *Unloader) standing() bool {
	stands := func(q *replica.Member) bool { return q.Group().Standing() }
	return u.cfg.Catalog.Raft().Standing() || slices.ContainsFunc(u.cfg.Members.Members(), stands)
}

// Stop keeps the drain that follows from being undone: the node is about to stop.
func (u *Unloader) Stop() { u.stopping.Store(true) }

// Undrain lets a node take new work and lead again; "" stands for this node. A drain that is in progress there fails.
// Undrain does nothing to a node that is not drained.
func (u *Unloader) Undrain(ctx context.Context, n id.NodeID) error {
	if n == "" || n == u.cfg.Node {
		if u.stopping.Load() {
			return fmt.Errorf("%w: node %q stops: start it again", peer.ErrUnreachable, u.cfg.Node)
		}
		if u.setDraining(false) {
			u.cfg.Logger.Info("the drain is undone: the node takes new work and may lead", "node", string(u.cfg.Node))
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, peer.Timeout)
	defer cancel()
	node, err := u.cfg.Peers.Client(n)
	if err == nil {
		_, err = node.Undrain(ctx, &nodev1.UndrainRequest{})
	}
	if err == nil {
		return nil
	}
	if peer.IsOlder(err) {
		err = errors.New("it runs an older build, whose drain only its restart ends")
	}
	return fmt.Errorf("%w: node %q: %w", peer.ErrUnreachable, n, err)
}

// Drain moves leadership of all groups off this node and waits until it leads nothing. Its error names what is left
// when ctx ends, or when no remaining group has another member that runs and does not drain: nodes that drain
// together must not hand groups to and fro. A drained node is no longer Ready; it stays a member until Close. report
// is called with the groups that were moved, and the one that holds the drain up.
func (u *Unloader) Drain(ctx context.Context, report func(operation.Progress)) error {
	u.setDraining(true)
	return u.moveAll(ctx, report)
}

// moveAll is Drain of a node that drains already. It fails when the drain is undone.
func (u *Unloader) moveAll(ctx context.Context, report func(operation.Progress)) error {
	most := 0
	for round, taken := 0, time.Now(); ; round++ {
		led := u.ledGroups()
		most = max(most, len(led))
		p := operation.Progress{Phase: phaseDrain, Done: int64(most - len(led)), Total: int64(most), Unit: unitGroups}
		if len(led) == 0 && !u.standing() {
			report(p)
			return nil
		}
		stays := u.staying(led)
		moving, shared := false, false
		held := holdUps{}
		err := each.Of(led, maxParallelTransfers, func(g ledGroup) error {
			takers := slices.DeleteFunc(slices.Clone(g.members), func(n id.NodeID) bool { return !slices.Contains(stays, n) })
			err := fmt.Errorf("no other member of it is there and stays: it has %q", g.members)
			if len(takers) > 0 {
				err = g.transfer(ctx, takers[round%len(takers)])
			}
			return held.note(g.name, err)
		})
		for _, g := range led {
			shared = shared || len(g.members) > 1
			moving = moving || slices.ContainsFunc(g.members, func(n id.NodeID) bool { return slices.Contains(stays, n) })
		}
		p.Detail = held.String()
		report(p)
		if moving {
			taken = time.Now()
		}
		if !u.Draining() {
			return errUndrained
		}
		alone := len(led) > 0 && !shared || time.Since(taken) > drainAlone
		if alone || wait.For(ctx, drainTick) != nil || u.cfg.Life.Err() != nil {
			return u.undrained(ctx, err)
		}
	}
}

// holdUps are the groups that could not be moved in a round.
type holdUps struct {
	mu    sync.Mutex // guards what follows
	names []string
	first error // of the first name in order
}

// note keeps the error of the name that comes first, so that the same trouble is reported alike each time.
func (h *holdUps) note(name string, err error) error {
	if err == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.names) == 0 || name < slices.Min(h.names) {
		h.first = err
	}
	h.names = append(h.names, name)
	return fmt.Errorf("%s: %w", name, err)
}

// String names the first one, why it stays, and how many there are besides.
func (h *holdUps) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.names) == 0 {
		return ""
	}
	s := fmt.Sprintf("held up by %s: %v", slices.Min(h.names), h.first)
	if n := len(h.names) - 1; n > 0 {
		s += fmt.Sprintf(", and by %d more", n)
	}
	return s
}

// staying asks the other members of groups and returns those that answer and do not drain.
func (u *Unloader) staying(led []ledGroup) []id.NodeID {
	var others []id.NodeID
	for _, g := range led {
		others = append(others, g.members...)
	}
	slices.Sort(others)
	others = slices.DeleteFunc(slices.Compact(others), func(n id.NodeID) bool { return n == u.cfg.Node })
	return peer.Each(others, func(n id.NodeID) bool {
		s, err := u.cfg.Catalog.Ask(n)
		return err == nil && !s.GetDraining()
	})
}

// ledGroup is a group that this node leads.
type ledGroup struct {
	name     string
	members  []id.NodeID
	transfer func(ctx context.Context, to id.NodeID) error
}

// ledGroups returns what this node leads, sorted.
func (u *Unloader) ledGroups() (led []ledGroup) {
	add := func(name string, members []id.NodeID, transfer func(context.Context, id.NodeID) error) {
		led = append(led, ledGroup{name, members, transfer})
	}
	v := u.cfg.View()
	for _, q := range u.cfg.Members.Members() {
		if !q.Leads() {
			continue
		}
		name := "queue " + q.UID().String()
		if r, ok := v.QueueByUID(q.UID()); ok {
			name = fmt.Sprintf("queue %q in vhost %q", r.Name, r.VHost)
		}
		voters, err := q.Group().Members()
		if err != nil {
			continue // it has stopped
		}
		add(name, voters, q.Group().TransferLeadership)
	}
	if u.cfg.Catalog.Leads() {
		voters, err := u.cfg.Catalog.Raft().Members()
		if err == nil {
			add("the catalog", voters, u.cfg.Catalog.Raft().TransferLeadership)
		}
	}
	slices.SortFunc(led, func(a, b ledGroup) int { return strings.Compare(a.name, b.name) })
	return led
}

// undrained is nil if the node leads nothing. It names a few of the groups that are left.
func (u *Unloader) undrained(ctx context.Context, last error) error {
	led := u.ledGroups()
	if len(led) == 0 {
		return nil
	}
	var left []string
	for _, g := range led {
		if len(left) == maxNamed {
			left = append(left, fmt.Sprintf("and %d more", len(led)-maxNamed))
			break
		}
		left = append(left, g.name)
	}
	return fmt.Errorf("cluster: node %q still leads %s: let another member of each catch up, or accept that they pause: %w",
		u.cfg.Node, strings.Join(left, ", "), errors.Join(ctx.Err(), last))
}

// startDrain is StartDrain of this node. It drains from now on, not from the job's first step, and
// stays as it is if the job is refused.
func (u *Unloader) startDrain(limit time.Duration) (operation.Operation, error) {
	draining := make(chan struct{})
	op, err := u.cfg.Operations.Start(kindDrain, fmt.Sprintf("node %q", u.cfg.Node), func(ctx context.Context, report func(operation.Progress)) error {
		<-draining
		if limit > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, limit)
			defer cancel()
		}
		return u.moveAll(ctx, report)
	})
	if err != nil && (!errors.Is(err, operation.ErrBusy) || op.Kind != kindDrain) {
		return op, err
	}
	u.setDraining(true) // again, if the drain that runs was undone and has not ended yet
	close(draining)
	return op, nil
}

// StartDrain starts to move all leadership off a node, as Drain, or returns the drain
// that runs there already. limit bounds it; 0: unlimited.
func (u *Unloader) StartDrain(ctx context.Context, n id.NodeID, limit time.Duration) (operation.Operation, error) {
	if n == "" || n == u.cfg.Node {
		return u.startDrain(limit)
	}
	ctx, cancel := context.WithTimeout(ctx, peer.Timeout)
	defer cancel()
	node, err := u.cfg.Peers.Client(n)
	if err != nil {
		return operation.Operation{}, fmt.Errorf("%w: node %q: %w", peer.ErrUnreachable, n, err)
	}
	r, err := node.Drain(ctx, &nodev1.DrainRequest{TimeoutMs: limit.Milliseconds()})
	if err != nil {
		return operation.Operation{}, fmt.Errorf("%w: node %q: %w", peer.ErrUnreachable, n, err)
	}
	return peer.FromWire(r.GetOperation())
}
