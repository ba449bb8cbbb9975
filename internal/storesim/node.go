package storesim

import (
	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
)

// disk is a data directory: what a node keeps when it ends.
type disk struct {
	store        id.StoreID
	first, epoch id.Epoch
	admitted     bool   // the catalog has taken it
	founding     bool   // it has promised itself to those that found the cluster
	began        uint64 // from when on its member of the catalog group may be empty
	members      [groups]*member
}

// newDisk returns an empty one.
func (w *world) newDisk() *disk {
	w.stores++
	// Epochs of a new directory are above all that were there before.
	return &disk{store: storeID(w.stores), first: id.Epoch(w.stores << 20), epoch: id.Epoch(w.stores<<20) - 1}
}

// patience is how many steps a node waits for an answer before it asks again.
const patience = 60

// node is a process and what it stores.
type node struct {
	w    *world
	idx  int
	name id.NodeID
	up   bool
	disk *disk

	// What a process knows and forgets.
	life       int
	catalog    *catalog.Catalog
	applied    uint64
	commit     [groups]uint64
	roles      map[group]*role
	open       bool   // the catalog's member takes part
	registered uint64 // index of this start's registration; 0: not yet
	left       uint64 // index from which on a former member of the catalog group is out; 0: not known
	// Steps until which this node waits for an answer of the catalog.
	asking, repairing int
	waits             []waiting
}

// waiting is a command to the catalog of which somebody waits for the reply.
type waiting struct {
	index, term uint64
	from        *node
	life        int
	done        func(catalog.Reply)
}

// boot starts the process.
func (n *node) boot() {
	n.up = true
	n.life++
	n.disk.epoch++
	n.catalog, n.applied, n.commit = catalog.New(), 0, [groups]uint64{}
	n.roles = map[group]*role{}
	n.registered, n.left, n.asking, n.repairing, n.waits = 0, 0, 0, 0, nil
	n.openCatalog()
}

func (n *node) view() *catalog.View { return n.catalog.View() }

// member returns what a group has on the disk, made when there is nothing.
func (n *node) member(g group) *member {
	if n.disk.members[g] == nil {
		n.disk.members[g] = &member{}
	}
	return n.disk.members[g]
}

// current reports whether this start is registered and the view is not older than that.
func (n *node) current() bool { return n.registered > 0 && n.view().Index() >= n.registered }

// takesPart returns the member of a group if it is open, nil if it is not.
func (n *node) takesPart(g group) *member {
	if !n.up {
		return nil
	}
	if g == queueGroup {
		return n.disk.members[g]
	}
	if !n.open {
		return nil
	}
	return n.member(g)
}

// crashOrStart ends a process, or starts one.
func (n *node) crashOrStart() {
	switch {
	case !n.up:
		n.boot()
		n.w.event("%s starts, store %s", n.name, n.disk.store)
	case !n.w.quiet && n.w.rng.IntN(3) == 0:
		n.up = false
		n.w.result.Crashes++
		n.w.event("%s ends", n.name)
	}
}

// wipe takes the data directory of a node that is down, if the groups can do without.
func (n *node) wipe() {
	if n.up || n.w.quiet || !n.w.spares(n, true) {
		return
	}
	n.w.result.Wiped++
	n.disk = n.w.newDisk()
	n.w.event("%s loses its directory, its next store is %s", n.name, n.disk.store)
}

// loseCatalog takes the log of the catalog of a node that is down.
func (n *node) loseCatalog() {
	if n.up || n.w.quiet || !n.disk.admitted || n.disk.members[catalogGroup] == nil || !n.w.spares(n, false) {
		return
	}
	n.w.result.Lost++
	n.disk.members[catalogGroup] = nil
	n.w.event("%s loses its catalog's log", n.name)
}

// spares reports whether a majority of the voters of each group has what it had, even if this
// node's disk is lost: more losses than that are not promised.
func (w *world) spares(n *node, all bool) bool {
	for g := range groups {
		if g == queueGroup && !all {
			continue
		}
		for _, c := range w.configs(g) {
			whole := countOf(c.voters, func(v id.NodeID) bool { return v != n.name && w.whole(v, g) })
			if whole <= len(c.voters)/2 {
				return false
			}
		}
	}
	return true
}

// newest returns the newest committed configuration, or nil.
func (w *world) newest(g group) *config {
	for i := len(w.ledger[g]); i > 0; i-- {
		if c := w.ledger[g][i-1].config; c != nil {
			return c
		}
	}
	return nil
}

// configs returns every configuration that may still be in force.
func (w *world) configs(g group) (all []*config) {
	if c := w.newest(g); c != nil {
		all = append(all, c)
	}
	for _, n := range w.nodes {
		if m := n.disk.members[g]; m != nil {
			for _, e := range m.log[min(len(m.log), len(w.ledger[g])):] {
				if e.config != nil {
					all = append(all, e.config)
				}
			}
		}
	}
	return all
}

// whole reports whether a voter has all that it ever had in a group.
func (w *world) whole(name id.NodeID, g group) bool {
	d := w.nodeOf(name).disk
	return d.members[g] != nil && len(d.members[g].log) > 0
}
