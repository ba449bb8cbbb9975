package metadata

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/raftfsm"
)

// Open opens the member that the data directory has, or a new one. It asks nobody and does not stand
// before Run. If what is stored is damaged, and a catalog has taken this node, it is set aside.
func Open(cfg Config) (*Group, error) {
	g := &Group{
		cfg: cfg, admission: cfg.Admission, news: newMemberNews(), joined: make(chan struct{}, 1),
		assurance: newAssurance(cfg.Staleness, cfg.Source), propagation: newPropagation(&cfg),
	}
	if err := g.open(); raftfsm.Damaged(err) && cfg.Dir.Store().Admitted {
		cfg.Logger.Error("this node's member of the catalog group is damaged: it does not take part until the group has been seen without it", "error", err)
		if err := cfg.Dir.GiveUpCatalog(err); err != nil {
			return nil, err
		}
		g.admission.part.Store(false)
		if err := g.open(); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	return g, nil
}

// open opens what is stored.
func (g *Group) open() error {
	cfg := &g.cfg
	storage, err := raftfsm.OpenBolt(filepath.Join(cfg.Dir.Catalog(), datadir.CatalogLog))
	if err != nil {
		return fmt.Errorf("cluster: opening the catalog's log: %w", err)
	}
	snapshots, err := raftfsm.OpenSnapshots(filepath.Join(cfg.Dir.Catalog(), datadir.SnapshotsDir), storage)
	if err != nil {
		return errors.Join(fmt.Errorf("cluster: opening the catalog's snapshots: %w", err), storage.Close())
	}
	g.raft, err = raftfsm.Open(raftfsm.Config[catalog.Reply, NoEffects]{
		Group:     id.CatalogGroup,
		Node:      cfg.Node,
		Machine:   NewMachine(cfg.Views, cfg.Journal, g.membersChange),
		Storage:   storage,
		Snapshots: snapshots,
		Transport: cfg.Mux.Raft(id.CatalogGroup),
		Logger:    cfg.Logger,
		Driven:    true,
		// The author of a change waits until the other nodes have it (EX-15).
		PushAtOnce: true,
		PushAfter:  catalogPush,
		Hangs:      cfg.Disk.Hangs,
		Scarce:     cfg.Disk.Low,
		Clock:      cfg.Clock.Moment,
		Base:       cfg.Dir.Store().Base,
	})
	if err != nil {
		return errors.Join(fmt.Errorf("cluster: opening the catalog group: %w", err), storage.Close())
	}
	g.opened = g.view().Version()
	return nil
}

// Run founds or joins the cluster, keeps the group's members and what is finalised in step with its
// nodes, and the view proven, until Config.Life ends.
func (g *Group) Run() {
	var loops sync.WaitGroup
	for _, loop := range []func(){g.watch, g.mend, g.found, g.register, g.assure, g.grow, g.raiseVersion, g.followVersion} {
		loops.Go(loop)
	}
	loops.Wait()
}

// Close ends the member, and sets what it has stored aside if it is to be rebuilt. Config.Life has ended.
func (g *Group) Close() error {
	g.cfg.Liveness.Remove(id.CatalogGroup)
	err := g.raft.Close()
	if errors.Is(err, raftfsm.ErrStopped) {
		err = nil
	}
	return errors.Join(err, g.giveUp())
}

// watch reports changes of the member to liveness, once the member takes part.
func (g *Group) watch() {
	for known := false; ; {
		changed := g.raft.Changed()
		switch {
		case known:
			g.cfg.Liveness.Changed(id.CatalogGroup)
		case g.admission.part.Load():
			g.cfg.Liveness.Add(id.CatalogGroup, g.raft)
			known = true
		}
		if g.raft.Failed() != nil {
			g.assurance.revoke()
		}
		select {
		case <-changed:
		case <-g.admission.parts:
		case <-g.cfg.Life.Done():
			return
		}
	}
}
