package metadata

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/clock"
	"github.com/quorate/quorate/cluster/nodeclock"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/phase"
	"github.com/quorate/quorate/internal/wait"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// A view of the catalog says what there is, and never what there is not: the entry that makes
// a queue may not have arrived. So a node serves clients only when its view has shown, once in
// this life, all that was committed when it asked; and it says that something is not there, or
// that a message has no queue, only while that was shown a short time ago (EX-16).
const (
	// proofAttempt bounds an attempt at first; one that fails may take longer the next time, up
	// to proofPatience, for overloaded nodes answer late.
	proofAttempt  = time.Second
	proofPatience = 8 * time.Second
	// proofRetry is the wait after an attempt that failed; it doubles with every eighth, up to
	// eightfold.
	proofRetry = 50 * time.Millisecond
	// proofWait bounds how long a call waits for the attempt that it asked for.
	proofWait = time.Second
)

// assurance is what this node knows of how current its view of the catalog is.
type assurance struct {
	most  time.Duration // age up to which a view is fresh
	clock nodeclock.Source

	// proven is when the newest attempt began that succeeded; nil: none has in this life, or since
	// the catalog group failed here.
	proven atomic.Pointer[clock.Reading]
	serves atomic.Bool // the view was confirmed, and the node may take part

	ask chan struct{} // of capacity 1: somebody waits for an attempt

	mu      sync.Mutex
	failing error         // why the newest attempt failed; nil: it did not
	ended   chan struct{} // closed at the end of an attempt
	changed chan struct{} // closed when serves changes
}

// newAssurance returns one that is not confirmed. A confirmation counts for most, by the clock.
func newAssurance(most time.Duration, clock nodeclock.Source) *assurance {
	return &assurance{
		most: most, clock: clock,
		ask: make(chan struct{}, 1), ended: make(chan struct{}), changed: make(chan struct{}),
	}
}

// age returns how old the view may be; false: nobody knows. The monotonic clock of a machine
// that was suspended does not tell of it, but its wall clock may.
func (a *assurance) age() (time.Duration, bool) {
	proven := a.proven.Load()
	if proven == nil {
		return 0, false
	}
	now := a.clock.Read()
	return max(now.Elapsed-proven.Elapsed, now.Wall-proven.Wall), true
}

func (a *assurance) fresh() bool {
	age, known := a.age()
	return known && age <= a.most
}

// attemptEnded takes how an attempt ended that began at a moment. usable reports whether the node may
// take part, and is asked under the lock.
func (a *assurance) attemptEnded(began clock.Reading, err error, usable func() bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failing = err
	close(a.ended)
	a.ended = make(chan struct{})
	if err != nil || !usable() {
		return
	}
	a.proven.Store(&began)
	a.setServes(true)
}

// revoke ends what was confirmed: this node may not take part, or its catalog group has failed.
func (a *assurance) revoke() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.proven.Store(nil)
	a.setServes(false)
}

// setServes wakes all that wait for news, if the answer is another one now; a.mu is held.
func (a *assurance) setServes(serves bool) {
	if a.serves.Swap(serves) == serves {
		return
	}
	close(a.changed)
	a.changed = make(chan struct{})
}

// news is closed when the answer to usable changes; ask again for the next change.
func (a *assurance) news() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed
}

// await returns when the view is fresh, or why it is not. While attempts fail it does not wait:
// whoever publishes would stand still. Otherwise, as after a pause of the process, it waits for
// an attempt that began after the call.
func (a *assurance) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, proofWait)
	defer cancel()
	for first := true; ; first = false {
		a.mu.Lock()
		failing, ended := a.failing, a.ended
		a.mu.Unlock()
		switch {
		case a.fresh():
			return nil
		case failing != nil:
			return failing
		}
		if first {
			wait.Wake(a.ask)
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return fmt.Errorf("cluster: the catalog's leader has not answered: %w", ctx.Err())
		}
	}
}

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

// prove asks the catalog's leader how far the catalog is, and waits until the view is as far.
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

// readIndexHere answers if this node leads the catalog, and a majority says so after the call.
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

// Fresh reports whether what the view lacks may be told of as not there: it showed everything
// that was committed at a moment at most Config.Staleness ago.
func (g *Group) Fresh() bool { return g.assurance.fresh() }

// AwaitFresh returns when Fresh, or soon with the reason why not.
func (g *Group) AwaitFresh(ctx context.Context) error { return g.assurance.await(ctx) }

// ViewAge returns how old the view may be; false: it was not confirmed yet.
func (g *Group) ViewAge() (time.Duration, bool) { return g.assurance.age() }
