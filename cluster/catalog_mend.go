package cluster

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/cluster/storage"
	"github.com/quorate/quorate/id"
)

// A member of the catalog group that has failed shows no change any more. If it is damaged or
// its machine has come upon a broken invariant, and the others go on, the node begins anew
// without what the member has stored: as one whose catalog was lost (datadir.Dir.CheckCatalog).

// ErrCatalogFailed says that this node's member of the catalog group has failed, and the others go on;
// the node is to begin anew, which builds the member anew.
var ErrCatalogFailed = errors.New("cluster: this node's member of the catalog group has failed")

// mendEvery is the time between two looks whether the others go on.
const mendEvery = time.Second

// mend waits until the member has failed and the others go on, and says so.
func (g *catalogGroup) mend() {
	for g.group.Failed() == nil {
		changed := g.group.Changed()
		if g.group.Failed() != nil {
			break
		}
		select {
		case <-changed:
		case <-g.c.ctx.Done():
			return
		}
	}
	err := g.group.Failed()
	if !storage.Damaged(err) {
		return // the disk has failed, or a newer build wrote what is there: neither goes away
	}
	for !g.othersGoOn() {
		if pause(g.c.ctx, mendEvery) != nil {
			return
		}
	}
	g.givenUp.Store(&err)
	if g.c.cfg.Failed != nil {
		g.c.cfg.Failed(fmt.Errorf("%w: %w: it is built anew from the other nodes", ErrCatalogFailed, err))
	}
}

// othersGoOn tells whether another member leads, runs, and has applied all that this one had
// when it failed: then what made it fail is no part of what all have.
func (g *catalogGroup) othersGoOn() bool {
	have := g.group.Stats().AppliedIndex
	for n, s := range g.others() {
		for _, m := range s.GetGroups() {
			if id.GroupID(m.GetGroup()) == id.CatalogGroup && m.GetFailed() == "" && m.GetLeader() == string(n) && m.GetAppliedIndex() >= have {
				return true
			}
		}
	}
	return false
}

// giveUp sets what the member has stored aside if it is to be built anew. The group is closed.
func (g *catalogGroup) giveUp() error {
	err := g.givenUp.Load()
	if err == nil || !g.c.dir.Store().Admitted {
		return nil
	}
	return g.c.dir.GiveUpCatalog(*err)
}
