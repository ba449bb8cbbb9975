package metadata

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/raftfsm"
)

// Group is this node's member of the catalog group. All methods may be called concurrently.
type Group struct {
	cfg         Config
	raft        *raftfsm.Group[catalog.Reply, NoEffects]
	admission   *Admission
	assurance   *assurance
	propagation *propagation

	opened catalog.Version // the finalised version that the files had

	givenUp    atomic.Pointer[error] // why the member is to be built anew; nil: it is not
	news       *memberNews
	joined     chan struct{}         // of capacity 1: the catalog knows this node now, and did not before
	registered atomic.Uint64         // catalog index of this start's registration; 0: not yet
	unlike     atomic.Pointer[error] // nodes whose Expect is another, as last seen; nil: none
	// leaderless is since when Ready has seen no leader, in nanoseconds of the monotonic
	// clock; 0: it has one. ledOnce reports that it had one before.
	leaderless atomic.Int64
	ledOnce    atomic.Bool
	seatedOnce atomic.Bool // seated found nothing missing once in this life
}

// leaderlessGrace is how long a node stays ready while the catalog elects a leader: its
// queues go on meanwhile, and whoever asks the catalog waits as long (RE-5, RE-6).
const leaderlessGrace = 5 * time.Second

const (
	// catalogRetry is the wait between attempts to reach the catalog's leader.
	catalogRetry = 50 * time.Millisecond
	// catalogAttempt bounds one attempt.
	catalogAttempt = 2 * time.Second
	// catalogPush is how long after a change the other nodes are told that it is committed.
	// Who made it waits until they have it (EX-15).
	catalogPush = 2 * time.Millisecond
	// firstElection bounds the wait for a new group's first candidate to stand.
	firstElection = 500 * time.Millisecond
)

// Open opens the member that the data directory has, or a new one. It asks nobody and does not stand
// before Run. If what is stored is damaged, and a catalog has taken this node, it is set aside.
func Open(cfg Config) (*Group, error) {
	g := &Group{
		cfg: cfg, admission: cfg.Admission, news: newMemberNews(), joined: make(chan struct{}, 1),
		assurance: newAssurance(cfg.Staleness, cfg.Source), propagation: newPropagation(cfg.Mux, cfg.Views.View, cfg.Logger),
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
		PushAfter: catalogPush,
		Hangs:     cfg.Disk.Hangs,
		Scarce:    cfg.Disk.Low,
		Clock:     cfg.Clock.Moment,
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

// Close ends the member, and sets what it has stored aside if it is to be built anew. Config.Life
// has ended.
func (g *Group) Close() error {
	g.cfg.Liveness.Remove(id.CatalogGroup)
	err := g.raft.Close()
	if errors.Is(err, raftfsm.ErrStopped) {
		err = nil
	}
	return errors.Join(err, g.giveUp())
}

// Raft returns the Raft group: how far it is, who its members are, and the handing over of its
// leadership. Commands go through Propose.
func (g *Group) Raft() *raftfsm.Group[catalog.Reply, NoEffects] { return g.raft }

func (g *Group) view() *catalog.View { return g.cfg.Views.View() }

// Registered returns the index of the catalog at which it has taken this start of the node; 0: it
// has not yet.
func (g *Group) Registered() uint64 { return g.registered.Load() }

// Joined has one element once the catalog has taken this node that it did not know, or had given up.
func (g *Group) Joined() <-chan struct{} { return g.joined }

// Founded reports whether the member has state: it was bootstrapped, or a leader has
// written to it.
func (g *Group) Founded() bool {
	s := g.raft.Stats()
	return s.LastIndex > 0 || s.SnapshotIndex > 0
}

// Leader returns the group's leader if it is alive, as far as this node knows: the group
// itself remembers one until there is another.
func (g *Group) Leader() id.NodeID {
	if !g.cfg.Liveness.Led(id.CatalogGroup) {
		return ""
	}
	leader, _ := g.raft.Leader()
	return leader
}

// Leads reports whether this node leads the group, as far as it knows.
func (g *Group) Leads() bool { return g.Leader() == g.cfg.Node }

// watch lets liveness see what becomes of the member, once it takes part.
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
