package metadata

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
	nodev1 "github.com/quorate/quorate/proto/node/v1"
)

// ErrNotFinalisable says that nodes keep a newer version from being finalised.
var ErrNotFinalisable = errors.New("cluster: not all nodes can read it")

// Versions reports which versions of stored state the nodes' builds read.
type Versions struct {
	Finalised catalog.Version
	Common    catalog.Version // newest that all nodes read, so what can be finalised
	Newest    catalog.Version // that this node reads
	// Held are the nodes that keep Common below Newest, by id.
	Held []HeldVersion
	// Manual are the nodes that leave it to an operator to finalise, by id.
	Manual []id.NodeID
}

// HeldVersion is why a node keeps a version from being finalised.
type HeldVersion struct {
	Node   id.NodeID
	Reads  catalog.Version // 0: not known
	Build  string          // "": not known
	Reason string
}

const (
	// raiseTick is the first wait between checks by the catalog's leader whether a newer version can be finalised;
	// later ones double up to leaderRest.
	raiseTick = 50 * time.Millisecond
	// snapshotRetry is the wait before a snapshot of the catalog is tried again.
	snapshotRetry = time.Second
	// versionsTimeout bounds the question to the nodes what they read.
	versionsTimeout = 2 * time.Second
	// maxNamed bounds the nodes that an error names.
	maxNamed = 10
)

// Versions asks all nodes what they read. Nodes that do not answer, or not in the life in
// which they registered, hold newer versions back, as do members of the catalog's group
// that are not registered.
func (g *Group) Versions(ctx context.Context) (Versions, error) {
	ctx, cancel := context.WithTimeout(ctx, versionsTimeout)
	defer cancel()
	v := g.view()
	out := Versions{Finalised: v.Version(), Common: catalog.NewestVersion, Newest: catalog.NewestVersion}
	answers := map[id.NodeID]*nodev1.NodeStatusResponse{}
	err := g.cfg.Peers.Ask(ctx, func(ctx context.Context, n id.NodeID, node nodev1.NodeClient) (func() error, error) {
		r, err := node.NodeStatus(ctx, &nodev1.NodeStatusRequest{Brief: true})
		return func() error { answers[n] = r; return nil }, err
	}, func(id.NodeID) {})
	if err != nil {
		return out, err
	}
	if g.cfg.ManualFinalise {
		out.Manual = append(out.Manual, g.cfg.Node)
	}
	hold := func(h HeldVersion) {
		out.Held = append(out.Held, h)
		out.Common = max(out.Finalised, min(out.Common, h.Reads))
	}
	for n := range v.Nodes() {
		if n.ID == g.cfg.Node {
			continue
		}
		a, reads := answers[n.ID], catalog.Version(0)
		if a != nil {
			reads = ReadsOf(a)
		}
		if a.GetManualFinalize() {
			out.Manual = append(out.Manual, n.ID)
		}
		switch {
		case a == nil:
			hold(HeldVersion{Node: n.ID, Reason: "does not answer"})
		case id.Epoch(a.GetEpoch()) != n.Epoch:
			hold(HeldVersion{Node: n.ID, Build: a.GetVersion(), Reason: "has started and is not registered yet"})
		case reads < out.Newest:
			hold(HeldVersion{Node: n.ID, Reads: reads, Build: a.GetVersion(), Reason: fmt.Sprintf(
				"runs build %s, which reads version %d", a.GetVersion(), reads)})
		}
	}
	g.holdUnregistered(v, hold)
	slices.SortFunc(out.Held, func(a, b HeldVersion) int { return cmp.Compare(a.Node, b.Node) })
	slices.Sort(out.Manual)
	return out, nil
}

// ReadsOf returns what a node reads. Builds that do not say it read the first version.
func ReadsOf(a *nodev1.NodeStatusResponse) catalog.Version {
	return catalog.Version(min(cmp.Or(a.GetReadsVersion(), uint32(catalog.VersionFirst)), math.MaxUint8))
}

// holdUnregistered names what the catalog does not know yet: this node, and members of its
// group, which are so before they are registered.
func (g *Group) holdUnregistered(v *catalog.View, hold func(HeldVersion)) {
	members := []id.NodeID{g.cfg.Node}
	if at, err := g.raft.Configuration(); err == nil {
		members = append(members, slices.Concat(at.Voters, at.Nonvoters)...)
	} else {
		hold(HeldVersion{Node: g.cfg.Node, Reason: "has no member of the catalog: " + err.Error()})
	}
	slices.Sort(members)
	for _, m := range slices.Compact(members) {
		r, registered := v.Node(m)
		if !registered || m == g.cfg.Node && r.Epoch != g.cfg.Epoch {
			hold(HeldVersion{Node: m, Reason: "is not registered yet"})
		}
	}
}

// Finalise raises the finalised version to the newest that this node reads. It fails,
// naming them, while nodes hold it back.
func (g *Group) Finalise(ctx context.Context) (Versions, error) {
	v, err := g.Versions(ctx)
	if err != nil || v.Finalised >= v.Newest {
		return v, err
	}
	if len(v.Held) > 0 {
		return v, v.notFinalisable()
	}
	return v, g.raise(ctx, v.Newest)
}

// notFinalisable names the nodes that hold the newest version back.
func (v *Versions) notFinalisable() error {
	text := ""
	for i, h := range v.Held {
		if i == maxNamed {
			text += fmt.Sprintf(", and %d more nodes", len(v.Held)-i)
			break
		}
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("node %q %s", h.Node, h.Reason)
	}
	return fmt.Errorf("%w: version %d: %s: upgrade and start them, or let the cluster forget those that are gone for good",
		ErrNotFinalisable, v.Newest, text)
}

// raise cannot be undone: older builds are refused from then on.
func (g *Group) raise(ctx context.Context, to catalog.Version) error {
	if _, err := g.Propose(ctx, &catalog.RaiseVersion{Version: to}); err != nil {
		return fmt.Errorf("cluster: finalising version %d: %w", to, err)
	}
	return nil
}

// raiseVersion raises the finalised version as soon as all nodes read a newer one, unless
// one of them leaves that to an operator. The catalog's leader does so; it ends when there
// is nothing newer.
func (g *Group) raiseVersion() {
	rest := raiseTick
	for g.view().Version() < catalog.NewestVersion {
		changed, viewed := g.raft.Changed(), g.cfg.Views.Next()
		if g.Leads() {
			v, err := g.Versions(g.cfg.Life)
			if err == nil && len(v.Manual) == 0 && v.Common > v.Finalised {
				err = g.raise(g.cfg.Life, v.Common)
			}
			if err != nil && g.cfg.Life.Err() == nil {
				g.cfg.Logger.Warn("a newer version is not finalised yet", "error", err)
			}
		}
		t := time.NewTimer(rest)
		select {
		case <-t.C:
			rest = min(2*rest, leaderRest)
		case <-changed:
			rest = raiseTick
		case <-viewed:
			rest = raiseTick
		case <-g.cfg.Life.Done():
		}
		t.Stop()
		if g.cfg.Life.Err() != nil {
			return
		}
	}
}

// followVersion does what each node must do when the finalised version rises: it disconnects older builds, which find
// out from a snapshot that they cannot read this data directory.
func (g *Group) followVersion() {
	for known := g.opened; ; {
		viewed := g.cfg.Views.Next()
		if now := g.view().Version(); now > known {
			known = now
			g.cfg.Mux.Recheck()
			g.cfg.Logger.Info("version finalised: from now on builds that cannot read it are refused", "version", int(now))
			for err := g.raft.Snapshot(); err != nil && g.raft.Failed() == nil; err = g.raft.Snapshot() {
				g.cfg.Logger.Debug("snapshot of the catalog after a rise of the version", "error", err)
				if wait.For(g.cfg.Life, snapshotRetry) != nil {
					return
				}
			}
		}
		select {
		case <-viewed:
		case <-g.cfg.Life.Done():
			return
		}
	}
}
