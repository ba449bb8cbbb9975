package storesim

import (
	"slices"
	"strconv"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/metadata"
	"github.com/quorate/quorate/id"
)

// maxCatalogVoters bounds the voters of the catalog group (RE-6).
const maxCatalogVoters = 5

func storeID(n uint64) id.StoreID { return id.StoreID("s" + strconv.FormatUint(n, 10)) }

// named is what a node says that its store is.
func (n *node) named() (s id.StoreID, fresh bool) {
	if n.w.cfg.Fault == FaultNoStores {
		return id.StoreID(n.name), false
	}
	return n.disk.store, !n.disk.admitted
}

// admits reports whether a node talks to another one, by its view, if that is not from before the other one's store
// was registered.
func (n *node) admits(p *node) bool {
	store, fresh := p.named()
	if p.disk.began > n.view().Index() {
		return true
	}
	return n.view().Refuses(p.name, store, fresh) == ""
}

// openCatalog decides at a start whether the catalog's member takes part: not one that is
// empty, before the group is known to go on without what it was, unless it founds the group.
func (n *node) openCatalog() {
	d := n.disk
	m := d.members[catalogGroup]
	switch fault := n.w.cfg.Fault; {
	case metadata.TakesPart(m != nil && len(m.log) > 0, true, d.admitted, d.founding): // a log is lost as a whole here
		n.open = true
	case fault == FaultNoStores, fault == FaultPeersAlone && !d.admitted, fault == FaultRefill && d.admitted:
		n.open = true
	default:
		d.members[catalogGroup], n.open = nil, false
	}
}

// register makes this start known to the catalog, and takes an empty member of the catalog
// group through LeaveCatalog.
func (n *node) register() {
	if !n.up || n.asking > n.w.now {
		return
	}
	d := n.disk
	store, fresh := n.named()
	done := func(then func(r catalog.Reply)) func(catalog.Reply) {
		return func(r catalog.Reply) {
			n.asking = 0
			if r.Err == nil {
				then(r)
			}
		}
	}
	var asked bool
	switch {
	case n.registered == 0:
		asked = n.proposeAnywhere(&catalog.RegisterNode{
			ID: n.name, Address: "h:1", ClientAddress: "h:2", Epoch: d.epoch,
			Store: store, Fresh: fresh, FirstEpoch: d.first, Empty: !n.open,
		}, done(func(r catalog.Reply) { n.registered, d.admitted = r.Index, true }))
	case !n.open && n.left > 0:
		if b, given := n.askBase(catalogGroup); given {
			d.began, d.members[catalogGroup], n.open = n.left, begun(0, b), true
			n.w.event("%s begins an empty member of the catalog group at %d, with base %v", n.name, n.left, b)
		}
	case !n.open:
		asked = n.proposeAnywhere(&catalog.LeaveCatalog{ID: n.name, Store: store, Since: d.began}, done(func(r catalog.Reply) {
			if r.Deleted && !n.open {
				n.left = r.Index
			}
		}))
	}
	if asked {
		n.asking = n.w.now + patience
	}
}

// grow is what the catalog's leader does about the group's members, one change at a time.
func (n *node) grow() {
	if r, _ := n.leads(catalogGroup); r == nil || !n.committedInTerm(catalogGroup) {
		return
	}
	if d := n.nextConfig(); d != nil {
		n.reconfigure(catalogGroup, d)
	}
}

// nextConfig returns the configuration that comes next, nil if it stays.
func (n *node) nextConfig() *config {
	r, m := n.leads(catalogGroup)
	c, _ := m.config()
	for who, since := range n.view().Leaving() {
		if c.has(who) {
			if who != n.name {
				return c.without(who)
			}
			continue
		}
		n.propose(n, &catalog.NodeOut{ID: who, Since: since}, func(catalog.Reply) {})
		return nil
	}
	for rec := range n.view().Nodes() {
		p := n.w.nodeOf(rec.ID)
		switch {
		case rec.Vacant || p != n && !n.w.linked(n, p) || slices.Contains(c.voters, rec.ID):
		case !c.has(rec.ID):
			return c.with(c.voters, append(slices.Clone(c.learners), rec.ID))
		case r.match[rec.ID] >= n.commit[catalogGroup] && len(c.voters) < maxCatalogVoters:
			d := c.without(rec.ID)
			return d.with(append(d.voters, rec.ID), d.learners)
		}
	}
	return nil
}

// replaceSome is an operator who gives the store of a node up that comes with another one.
func (n *node) replaceSome() {
	p := n.w.nodes[n.w.rng.IntN(nodes)]
	rec, known := n.view().Node(p.name)
	if !n.up || !known || rec.Vacant || rec.Store == "" || rec.Store == p.disk.store || n.w.cfg.Fault == FaultNoStores {
		return
	}
	n.proposeAnywhere(&catalog.ReplaceNode{ID: p.name, Epoch: rec.Epoch}, func(r catalog.Reply) {
		if r.Deleted {
			n.w.result.Replaced++
			n.w.event("%s is given up with store %s", p.name, rec.Store)
		}
	})
}

// forgetSome is an operator who takes a node out that is down, and later starts one of that
// name with an empty directory.
func (n *node) forgetSome() {
	p := n.w.nodes[n.w.rng.IntN(nodes)]
	if !n.up || p.up || n.w.quiet {
		return
	}
	n.proposeAnywhere(&catalog.ForgetNode{ID: p.name}, func(r catalog.Reply) {
		if r.Deleted {
			n.w.result.Forgotten++
			n.w.event("%s is forgotten", p.name)
			p.up, p.disk = false, n.w.newDisk()
		}
	})
}

// renewForgotten is an operator who empties the directory of a node that was forgotten.
func (n *node) renewForgotten() {
	for _, p := range n.w.nodes {
		if _, known := n.view().Node(p.name); !known && !n.admits(p) {
			p.disk = n.w.newDisk()
			p.boot()
			n.w.event("%s begins with an empty directory, store %s", p.name, p.disk.store)
		}
	}
}
