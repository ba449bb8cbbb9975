package metadata

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/cluster/storage"
	"github.com/quorate/quorate/id"
	"github.com/quorate/quorate/internal/wait"
	"github.com/quorate/quorate/raftfsm"
)

// A member of the catalog group that has failed shows no further change. If it is damaged, or its machine has found a
// broken invariant, and the others continue, the node starts over without what the member has stored: as a node whose
// catalog was lost (datadir.Dir.CheckCatalog).

// ErrFailed means that this node's member of the catalog group has failed, and the others continue; the node is to
// start over, which builds the member anew.
var ErrFailed = errors.New("cluster: this node's member of the catalog group has failed")

// mendEvery is the interval between checks whether the others continue.
const mendEvery = time.Second

// mend waits until the member has failed and the others continue, and reports it.
func (g *Group) mend() {
	for g.raft.Failed() == nil {
		changed := g.raft.Changed()
		if g.raft.Failed() != nil {
			break
		}
		select {
		case <-changed:
		case <-g.cfg.Life.Done():
			return
		}
	}
	err := g.raft.Failed()
	if !storage.Damaged(err) {
		if errors.Is(err, raftfsm.ErrWriteFailed) && g.cfg.Failed != nil {
			g.cfg.Failed(err) // the disk is full or has failed: a start reads what is there, and waits for room
		}
		return // a newer build wrote what is there, which does not go away
	}
	for !g.OthersGoOn() {
		if wait.For(g.cfg.Life, mendEvery) != nil {
			return
		}
	}
	g.givenUp.Store(&err)
	if g.cfg.Failed != nil {
		g.cfg.Failed(fmt.Errorf("%w: %w: it is built anew from the other nodes", ErrFailed, err))
	}
}

// OthersGoOn reports whether another member leads, runs, and has applied all that this one had
// when it failed: then what made it fail is no part of what all have.
func (g *Group) OthersGoOn() bool {
	have := g.raft.Stats().AppliedIndex
	for n, s := range g.others() {
		for _, m := range s.GetGroups() {
			if id.GroupID(m.GetGroup()) == id.CatalogGroup && m.GetFailed() == "" && m.GetLeader() == string(n) && m.GetAppliedIndex() >= have {
				return true
			}
		}
	}
	return false
}

// giveUp sets what the member has stored aside if it is to be rebuilt. The group is closed.
func (g *Group) giveUp() error {
	err := g.givenUp.Load()
	if err == nil || !g.cfg.Dir.Store().Admitted {
		return nil
	}
	return g.cfg.Dir.GiveUpCatalog(*err)
}
