package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
)

// admission is whether this node's store is that of its node, and whether its member of the
// catalog group takes part (RE-9): docs/adr/0017-stores.md.
type admission struct {
	taken atomic.Bool // as the data directory says: a catalog has taken the store
	// part tells that the member acts in the catalog group. Until then Raft calls for it are
	// refused, and it does not stand.
	part    atomic.Bool
	parts   chan struct{}         // of capacity 1: part was set
	refused atomic.Pointer[error] // why the catalog does not take this node; nil: it does, or has not said

	mu   sync.Mutex           // guards what follows
	shut map[id.NodeID]string // peers that refuse this node, and why
}

const (
	// registerAttempt bounds one attempt to register: what is said about the store may have to
	// be said in another form afterwards.
	registerAttempt = 5 * time.Second
	// refusedRetry is the wait after the catalog has refused this node: somebody may let it in.
	refusedRetry = time.Second
	// beginRetry is the wait between two questions whether the member may begin.
	beginRetry = 100 * time.Millisecond
)

// TakesPart tells whether a node's member of the catalog group may act in it when the node
// starts: give votes and answer for entries. What it has stored is whole if it reaches as far
// as the node knows that it did. A member with nothing may act only if its store has promised itself to a
// founding, and no catalog has taken it since; any other has been promised to others and was
// lost, or never began: it asks by catalog.LeaveCatalog when it may begin.
func TakesPart(stored, whole, admitted, promised bool) bool {
	return whole && (stored || !admitted && promised)
}

// register makes this start of the node known to the catalog, lets its member of the catalog
// group begin if it has nothing, and registers again when it has to. What it is answered
// also tells how far the view has to come to be caught up.
func (g *catalogGroup) register() {
	unknown := false // an attempt may have taken effect
	for g.c.ctx.Err() == nil {
		fresh := g.freshStore()
		a, err := g.registerOnce(unknown)
		unknown = unknown || a.repeated
		if errors.Is(err, errNoAnswer) {
			continue
		}
		if err == nil {
			g.refused.Store(nil)
			g.registered.Store(a.Index)
			g.c.host.wakeReconcile()
			if a.Created || fresh && unknown { // a repeat may not tell
				g.tellJoined()
			}
			err = g.begin(a)
		}
		switch {
		case err == nil:
			g.watchRecord()
		case !errors.Is(err, errNoAnswer):
			g.refuse(err)
			fallthrough
		default:
			_ = wait.For(g.c.ctx, refusedRetry) // its end ends the loop
		}
	}
}

func (g *catalogGroup) tellJoined() {
	wait.Wake(g.joined)
}

// errNoAnswer says that the catalog has not answered, or that it wants another form of the
// question.
var errNoAnswer = errors.New("cluster: no answer of the catalog")

// registrationAnswer is what came of an attempt to register.
type registrationAnswer struct {
	catalog.Reply
	stores   bool // the cluster knows stores
	repeated bool // the attempt, or one before, may have taken effect besides
}

// registerOnce asks the catalog to take the node. The error says why it does not, or is
// errNoAnswer.
func (g *catalogGroup) registerOnce(unknown bool) (a registrationAnswer, err error) {
	ctx, cancel := context.WithTimeout(g.c.ctx, registerAttempt)
	defer cancel()
	version, known := g.asks(ctx)
	cmd := g.registration(version)
	a.stores = cmd.Store != ""
	if !a.stores && known != 0 && g.freshStore() && (known < g.c.dir.Store().First || known > g.c.epoch) {
		return a, g.lostDirectory()
	}
	a.Reply, a.repeated, err = g.propose(ctx, catalog.AppendCommand(nil, cmd))
	switch {
	case err != nil:
		a.repeated = errors.Is(err, traffic.ErrUnknownOutcome)
		return a, errNoAnswer
	case a.Err != nil && (a.Err.Kind == "command" || a.Err.Arg == "store" && !a.stores):
		_ = wait.For(ctx, catalogRetry) // the version was raised, or is not yet
		return a, errNoAnswer
	case a.Err != nil:
		return a, fmt.Errorf("cluster: the catalog refuses this node: %w", a.Err)
	case !a.stores && g.freshStore() && !g.part.Load() && !a.Created && !a.repeated && !unknown:
		return a, errors.Join(g.lostDirectory(), g.c.dir.Deny())
	}
	if err := g.c.dir.Admit(); err != nil {
		return a, err
	}
	g.taken.Store(true)
	return a, nil
}

func (g *catalogGroup) freshStore() bool { return !g.taken.Load() }

// lostDirectory is why a new directory is refused while the cluster knows no stores.
func (g *catalogGroup) lostDirectory() error {
	n := catalog.Node{ID: g.c.cfg.Node}
	return fmt.Errorf("cluster: %s", n.CannotHave(g.c.dir.Store().Name, true, math.MaxUint64))
}

// registration is what this node says of itself in a cluster whose finalised version is so.
func (g *catalogGroup) registration(version catalog.Version) *catalog.RegisterNode {
	cfg, s := &g.c.cfg, g.c.dir.Store()
	cmd := &catalog.RegisterNode{ID: cfg.Node, Address: cfg.PeerAddr, ClientAddress: cfg.ClientAddr, Epoch: g.c.epoch}
	if version < catalog.VersionStores {
		return cmd
	}
	cmd.Store, cmd.Fresh, cmd.FirstEpoch, cmd.Empty = s.Name, !s.Admitted, s.First, !g.part.Load()
	if s.Denied {
		cmd.FirstEpoch = math.MaxUint64 // no earlier registration was its own
	}
	return cmd
}

// asks returns the finalised version of the cluster, and the epoch in which this node is
// registered, 0 if it is not, as its view or the peers that it is linked with know them.
func (g *catalogGroup) asks(ctx context.Context) (version catalog.Version, known id.Epoch) {
	v := g.c.View()
	version = v.Version()
	if n, is := v.Node(g.c.cfg.Node); is {
		known = n.Epoch
	}
	for _, n := range g.c.gossip() {
		if _, up := g.c.mux.Connected(n.ID); !up || ctx.Err() != nil || version >= catalog.VersionStores {
			continue
		}
		s, err := g.ask(n.ID)
		if err != nil {
			continue
		}
		version = max(version, catalog.Version(min(s.GetFinalizedVersion(), math.MaxUint8)))
		known = max(known, id.Epoch(s.GetKnownEpoch()))
	}
	return version, known
}

// begin lets the member of the catalog group take part if it does not yet: the catalog says
// when a former one is out of the group. While the cluster knows no stores, one that is new
// to it has had none.
func (g *catalogGroup) begin(a registrationAnswer) error {
	r, out := a.Reply, a.Created
	for !g.part.Load() {
		if a.stores {
			ctx, cancel := context.WithTimeout(g.c.ctx, registerAttempt)
			cmd := &catalog.LeaveCatalog{ID: g.c.cfg.Node, Store: g.c.dir.Store().Name, Since: g.c.dir.Store().Began}
			answer, _, err := g.propose(ctx, catalog.AppendCommand(nil, cmd))
			cancel()
			if err == nil && answer.Err != nil {
				return fmt.Errorf("cluster: the catalog does not let this node's member begin: %w", answer.Err)
			}
			r, out = answer, err == nil && answer.Deleted
		}
		if out {
			if err := g.c.dir.BeginCatalog(r.Index); err != nil {
				return err
			}
			g.c.log.Info("this node's member of the catalog group begins with nothing: a former one, if there was one, is out of it", "index", r.Index)
			g.takePart()
			return nil
		}
		if err := wait.For(g.c.ctx, beginRetry); err != nil || !a.stores {
			return errNoAnswer
		}
	}
	return nil
}

// takePart lets the member act.
func (g *catalogGroup) takePart() {
	g.part.Store(true)
	wait.Wake(g.parts)
}

// watchRecord returns when this node has to register again: its record has no store yet, or is
// not there. While the record has another store, nobody is served here.
func (g *catalogGroup) watchRecord() {
	var seen catalog.NodeSet
	var version catalog.Version
	for {
		changed := g.c.views.Next()
		v := g.c.View()
		if (v.NodeSet() != seen || v.Version() != version) && v.Index() >= g.registered.Load() {
			seen, version = v.NodeSet(), v.Version()
			r, known := v.Node(g.c.cfg.Node)
			switch {
			case !known || r.Vacant || r.Store != "" && r.Store != g.c.dir.Store().Name:
				return // it is refused, and told why
			case r.Store == "" && v.Version() >= catalog.VersionStores:
				return
			}
		}
		select {
		case <-changed:
		case <-g.c.ctx.Done():
			return
		}
	}
}

// refuse keeps this node out: it serves nobody, and opens no group that it has no files of.
func (g *catalogGroup) refuse(why error) {
	old := g.refused.Swap(&why)
	g.registered.Store(0)
	g.assurance.revoke()
	if old == nil || (*old).Error() != why.Error() {
		g.c.log.Error("this node may not take part", "error", why)
	}
}

// refusedBy notes that a peer refuses this node.
func (g *catalogGroup) refusedBy(n id.NodeID, why string) {
	g.mu.Lock()
	if g.shut == nil {
		g.shut = map[id.NodeID]string{}
	}
	g.shut[n] = why
	g.mu.Unlock()
	if g.refusal() != nil {
		g.assurance.revoke()
	}
}

// acceptedBy notes that a peer talks to this node.
func (g *catalogGroup) acceptedBy(n id.NodeID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.shut, n)
}

// refusal says why this node may not take part: the catalog says so, or peers refuse it and
// none talks to it.
func (g *catalogGroup) refusal() error {
	if err := g.refused.Load(); err != nil {
		return *err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.shut) == 0 {
		return nil
	}
	for _, n := range g.c.gossip() {
		if _, up := g.c.mux.Connected(n.ID); up {
			return nil
		}
	}
	n := slices.Min(slices.Collect(maps.Keys(g.shut)))
	return fmt.Errorf("cluster: this node may not take part: node %q says: %s", n, g.shut[n])
}

// freshStore tells that no catalog has taken this node's store yet.
func (c *Cluster) freshStore() bool {
	return c.catalog == nil && !c.dir.Store().Admitted || c.catalog != nil && c.catalog.freshStore()
}

// takesPart tells that this node's member of the catalog group does.
func (c *Cluster) takesPart() bool { return c.catalog != nil && c.catalog.part.Load() }

func (c *Cluster) refusedBy(n id.NodeID, why string) {
	if c.catalog != nil {
		c.catalog.refusedBy(n, why)
	}
}

func (c *Cluster) acceptedBy(n id.NodeID) {
	if c.catalog != nil {
		c.catalog.acceptedBy(n)
	}
}

// RefusedPeers returns how many peers this node refuses now, by reason.
func (c *Cluster) RefusedPeers() map[string]int { return c.judge.Refused() }
