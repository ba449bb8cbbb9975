package metadata

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/phase"
	"github.com/quorate/quorate/internal/wait"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// assure keeps the view proven, until the node stops.
func (g *Group) assure() {
	a := g.assurance
	for failures := 0; ; {
		began := a.clock.Read()
		err := g.prove(min(proofAttempt<<min(failures, 3), proofPatience), failures)
		a.attemptEnded(began, err, func() bool { return g.able() == nil })
		rest, ask := phase.Wait(time.Now(), a.most/2), a.ask
		if failures++; err == nil {
			failures = 0
		} else {
			rest, ask = proofRetry<<min(failures/8, 3), nil // it is soon enough
		}
		due := time.NewTimer(rest)
		select {
		case <-due.C:
		case <-ask:
		case <-g.cfg.Life.Done():
			due.Stop()
			return
		}
		due.Stop()
	}
}

// prove asks the catalog's leader for the catalog's index, and waits until the view has reached it.
func (g *Group) prove(limit time.Duration, attempt int) error {
	if err := g.admitted(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(g.cfg.Life, limit)
	defer cancel()
	index, err := g.readIndex(ctx, attempt)
	if err != nil {
		return fmt.Errorf("cluster: asking the catalog's leader how far the catalog is: %w", err)
	}
	if err := g.cfg.Views.Await(ctx, index); err != nil {
		return fmt.Errorf("cluster: catalog view is catching up: at index %d of %d", g.view().Index(), index)
	}
	return nil
}

// readIndex asks the leader, or whoever may know it.
func (g *Group) readIndex(ctx context.Context, attempt int) (uint64, error) {
	to := g.target(attempt)
	if to == "" {
		return 0, errors.New("no node that may lead it is connected: check that a majority of its nodes runs and is connected")
	}
	index, leader, err := g.readIndexAt(ctx, to)
	if err != nil && leader != "" && leader != to {
		index, _, err = g.readIndexAt(ctx, leader)
	}
	return index, err
}

// readIndexAt asks the node to, which may be this one. It names the leader if to does not lead.
func (g *Group) readIndexAt(ctx context.Context, to id.NodeID) (index uint64, leader id.NodeID, err error) {
	if to == g.cfg.Node {
		return g.readIndexHere(ctx)
	}
	peer, err := g.cfg.Mux.Client(to)
	if err != nil {
		return 0, "", err
	}
	answer, err := peer.CatalogIndex(ctx, &nodev1.CatalogIndexRequest{})
	if status.Code(err) == codes.Unimplemented {
		// A node of an older build: it answers commands, and this one changes nothing.
		r, _, err := g.propose(ctx, catalog.AppendCommand(nil, g.registration(catalog.VersionFirst)))
		return r.Index, "", err
	}
	if err != nil {
		return 0, "", fmt.Errorf("asking node %q: %w", to, err)
	}
	if answer.GetNotLeader() {
		return 0, id.NodeID(answer.GetLeader()), fmt.Errorf("node %q does not lead it", to)
	}
	return answer.GetIndex(), "", nil
}

// readIndexHere answers if this node leads the catalog and a majority confirms that after the call.
func (g *Group) readIndexHere(ctx context.Context) (index uint64, leader id.NodeID, err error) {
	if err := g.raft.Verify(ctx); err != nil {
		leader, _ := g.raft.Leader()
		return 0, leader, err
	}
	return g.view().Index(), "", nil
}

// Serves reports whether this node may answer clients: its view of the catalog was confirmed
// through the catalog's leader in this life, the catalog takes the node, and the node's member
// of the catalog group runs. It costs next to nothing.
func (g *Group) Serves() bool { return g.assurance.serves.Load() }

// ServesChanged returns a channel that is closed when Serves changes; ask for it before.
func (g *Group) ServesChanged() <-chan struct{} { return g.assurance.news() }

// Hindrance reports why Serves is false, or nil.
func (g *Group) Hindrance() error {
	if g.Serves() {
		return nil
	}
	return g.Ready()
}

// Fresh reports whether what the view lacks may be reported as not there: it showed everything
// that was committed at a moment at most Config.Staleness ago.
func (g *Group) Fresh() bool { return g.assurance.fresh() }

// AwaitFresh returns when Fresh, or soon with the reason why not.
func (g *Group) AwaitFresh(ctx context.Context) error { return g.assurance.await(ctx) }

// Confirm returns when this node's view shows all that the catalog had committed when Confirm was
// called, so also all that any node's view showed then. It fails if that takes longer than
// Config.CommandTimeout. Calls at the same time share an attempt.
func (g *Group) Confirm(ctx context.Context) error {
	ctx, cancel := wait.Within(ctx, g.cfg.Life, g.cfg.CommandTimeout)
	defer cancel()
	return g.assurance.confirm(ctx)
}

// ConfirmEverywhere is Confirm, and then waits as Propose does for the nodes that this one is connected to (EX-15): who
// gets an answer by this view finds on them what it is about. It fails only if Confirm does.
func (g *Group) ConfirmEverywhere(ctx context.Context) error {
	ctx, cancel := wait.Within(ctx, g.cfg.Life, g.cfg.CommandTimeout)
	defer cancel()
	if err := g.assurance.confirm(ctx); err != nil {
		return err
	}
	g.propagation.await(ctx, g.view().Index())
	return nil
}

// ViewAge returns how old the view may be; false: it was not confirmed yet.
func (g *Group) ViewAge() (time.Duration, bool) { return g.assurance.age() }
