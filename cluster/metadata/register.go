package metadata

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/traffic"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
)

const (
	// registerAttempt bounds one attempt to register: the next one may have to describe the store in another form.
	registerAttempt = 5 * time.Second
	// refusedRetry is the wait after the catalog has refused this node: somebody may let it in.
	refusedRetry = time.Second
	// beginRetry is the interval between questions whether the member may begin.
	beginRetry = 100 * time.Millisecond
)

// register registers this start of the node in the catalog, lets its member of the catalog group begin if it has
// nothing, and registers again when necessary. The answer also has the index that the view must reach to be caught
// up.
func (g *Group) register() {
	unknown := false // an attempt may have taken effect
	for g.cfg.Life.Err() == nil {
		fresh := g.admission.FreshStore()
		a, err := g.registerOnce(unknown)
		unknown = unknown || a.repeated
		if errors.Is(err, errNoAnswer) {
			continue
		}
		if err == nil {
			g.admission.refused.Store(nil)
			g.registered.Store(a.Index)
			g.cfg.Registered()
			if a.Created || fresh && unknown { // a repeat may not show it
				wait.Wake(g.joined)
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
			_ = wait.For(g.cfg.Life, refusedRetry) // its end ends the loop
		}
	}
}

// errNoAnswer means that the catalog has not answered, or wants another form of the question.
var errNoAnswer = errors.New("cluster: no answer of the catalog")

// registrationAnswer is the result of an attempt to register.
type registrationAnswer struct {
	catalog.Reply
	stores   bool // the cluster knows stores
	repeated bool // the attempt, or one before, may have taken effect besides
}

// registerOnce asks the catalog to take the node. The error is why it does not, or errNoAnswer.
func (g *Group) registerOnce(unknown bool) (a registrationAnswer, err error) {
	ctx, cancel := context.WithTimeout(g.cfg.Life, registerAttempt)
	defer cancel()
	version, known := g.asks(ctx)
	cmd := g.registration(version)
	a.stores = cmd.Store != ""
	if !a.stores && known != 0 && g.admission.FreshStore() && (known < g.cfg.Dir.Store().First || known > g.cfg.Epoch) {
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
	case !a.stores && g.admission.FreshStore() && !g.admission.part.Load() && !a.Created && !a.repeated && !unknown:
		return a, errors.Join(g.lostDirectory(), g.cfg.Dir.Deny())
	}
	if err := g.cfg.Dir.Admit(); err != nil {
		return a, err
	}
	g.admission.taken.Store(true)
	return a, nil
}

// lostDirectory is why a new directory is refused while the cluster knows no stores.
func (g *Group) lostDirectory() error {
	n := catalog.Node{ID: g.cfg.Node}
	return fmt.Errorf("cluster: %s", n.CannotHave(g.cfg.Dir.Store().Name, true, math.MaxUint64))
}

// registration returns how this node registers in a cluster with the given finalised version.
func (g *Group) registration(version catalog.Version) *catalog.RegisterNode {
	cfg, s := &g.cfg, g.cfg.Dir.Store()
	cmd := &catalog.RegisterNode{ID: cfg.Node, Address: cfg.PeerAddr, ClientAddress: cfg.ClientAddr, Epoch: g.cfg.Epoch}
	if version < catalog.VersionStores {
		return cmd
	}
	cmd.Store, cmd.Fresh, cmd.FirstEpoch, cmd.Empty = s.Name, !s.Admitted, s.First, !g.admission.part.Load()
	if s.Denied {
		cmd.FirstEpoch = math.MaxUint64 // no earlier registration was its own
	}
	return cmd
}

// asks returns the finalised version of the cluster, and the epoch in which this node is
// registered, 0 if it is not, as its view or the peers that it is connected to know them.
func (g *Group) asks(ctx context.Context) (version catalog.Version, known id.Epoch) {
	v := g.view()
	version = v.Version()
	if n, is := v.Node(g.cfg.Node); is {
		known = n.Epoch
	}
	for _, n := range g.cfg.Gossip() {
		if _, up := g.cfg.Mux.Connected(n.ID); !up || ctx.Err() != nil || version >= catalog.VersionStores {
			continue
		}
		s, err := g.Ask(n.ID)
		if err != nil {
			continue
		}
		version = max(version, catalog.Version(min(s.GetFinalizedVersion(), math.MaxUint8)))
		known = max(known, id.Epoch(s.GetKnownEpoch()))
	}
	return version, known
}

// begin lets the member of the catalog group take part if it does not yet: the catalog reports when a former member
// is out of the group, and the catalog's leader how far the group is. While the cluster knows no stores, a node that
// is new to it has had no member.
func (g *Group) begin(a registrationAnswer) error {
	at, out, why := a.Index, a.Created, ""
	for attempt := 0; !g.admission.part.Load(); attempt++ {
		ctx, cancel := context.WithTimeout(g.cfg.Life, registerAttempt)
		var err error
		if a.stores {
			at, out, err = g.leaves(ctx)
		}
		if out {
			base, missing := g.base(ctx, attempt)
			if missing == nil {
				err = g.beginWith(g.cfg.Life, at, base)
			} else if missing.Error() != why {
				why = missing.Error()
				g.cfg.Logger.Warn("this node's member of the catalog group cannot begin yet: the catalog's leader has to say how far the group is", "error", missing)
			}
		}
		cancel()
		if err != nil || g.admission.part.Load() {
			return err
		}
		if err := wait.For(g.cfg.Life, beginRetry); err != nil || !a.stores && !out {
			return errNoAnswer
		}
	}
	return nil
}

// watchRecord returns when this node has to register again: its record has no store yet, or is
// not there. While the record has another store, nobody is served here.
func (g *Group) watchRecord() {
	var seen catalog.NodeSet
	var version catalog.Version
	for {
		changed := g.cfg.Views.Next()
		v := g.view()
		if (v.NodeSet() != seen || v.Version() != version) && v.Index() >= g.registered.Load() {
			seen, version = v.NodeSet(), v.Version()
			r, known := v.Node(g.cfg.Node)
			switch {
			case !known || r.Vacant || r.Store != "" && r.Store != g.cfg.Dir.Store().Name:
				return // it is refused, with the reason
			case r.Store == "" && v.Version() >= catalog.VersionStores:
				return
			}
		}
		select {
		case <-changed:
		case <-g.cfg.Life.Done():
			return
		}
	}
}

// refuse keeps this node out: it serves nobody, and opens no group that it has no files of.
func (g *Group) refuse(why error) {
	old := g.admission.refused.Swap(&why)
	g.registered.Store(0)
	g.assurance.revoke()
	if old == nil || (*old).Error() != why.Error() {
		g.cfg.Logger.Error("this node may not take part", "error", why)
	}
}

// RefusedBy records that a peer refuses this node.
func (g *Group) RefusedBy(n id.NodeID, why string) {
	g.admission.shutBy(n, why)
	if g.Refusal() != nil {
		g.assurance.revoke()
	}
}
