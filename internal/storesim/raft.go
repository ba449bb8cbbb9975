package storesim

import (
	"slices"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/id"
)

// config is who is in a group.
type config struct{ voters, learners []id.NodeID }

func (c *config) has(n id.NodeID) bool {
	return slices.Contains(c.voters, n) || slices.Contains(c.learners, n)
}

func (c *config) with(voters, learners []id.NodeID) *config {
	return &config{voters: slices.Clone(voters), learners: slices.Clone(learners)}
}

// without returns the configuration without a node.
func (c *config) without(n id.NodeID) *config {
	d := c.with(c.voters, c.learners)
	is := func(m id.NodeID) bool { return m == n }
	d.voters, d.learners = slices.DeleteFunc(d.voters, is), slices.DeleteFunc(d.learners, is)
	return d
}

// entry is one entry of a group's log: a configuration, a command to the catalog, or a
// message, which stands for its number.
type entry struct {
	term    uint64
	config  *config
	command catalog.Command
	message uint64
}

// member is what a group has on a disk.
type member struct {
	term   uint64
	vote   id.NodeID
	log    []entry
	joined uint64 // the change of members by which it began to join; 0: none
	base   base   // with which it began
}

// base is how far a group was when a member began with nothing: a leader's term, and up to where all was committed.
type base struct{ term, index uint64 }

// exceeds reports whether a log that ends so is older.
func (b base) exceeds(term, index uint64) bool {
	return b.term > term || b.term == term && b.index > index
}

// begun returns an empty member with a base, which answers no leader of an older term.
func begun(joined uint64, b base) *member { return &member{term: b.term, joined: joined, base: b} }

func (m *member) last() uint64 { return uint64(len(m.log)) }

// lastTerm is 0 for an empty log.
func (m *member) lastTerm() uint64 {
	if len(m.log) == 0 {
		return 0
	}
	return m.log[len(m.log)-1].term
}

// config returns the newest configuration of the log and its index, or nil.
func (m *member) config() (*config, uint64) {
	for i := len(m.log); i > 0; i-- {
		if c := m.log[i-1].config; c != nil {
			return c, uint64(i)
		}
	}
	return nil, 0
}

// role is what a member does besides following: it campaigns, or leads.
type role struct {
	term    uint64
	votes   map[id.NodeID]bool
	leads   bool
	begun   uint64 // index of the first entry of the term
	match   map[id.NodeID]uint64
	granted uint64 // the change of members that the catalog has confirmed as current; 0: none
	waiting int    // step until which the catalog's answer is waited for
}

// stand lets a member ask for votes in a new term.
func (n *node) stand(g group) {
	m := n.takesPart(g)
	if m == nil {
		return
	}
	if c, _ := m.config(); c == nil || !slices.Contains(c.voters, n.name) || m.base.exceeds(m.lastTerm(), m.last()) {
		return
	}
	m.term++
	m.vote = n.name
	n.roles[g] = &role{term: m.term, votes: map[id.NodeID]bool{n.name: true}}
	n.w.event("%s stands in %s for term %d", n.name, g, m.term)
	n.count(g, m)
}

// askVote asks a peer.
func (n *node) askVote(g group, p *node) {
	r, m := n.roles[g], n.takesPart(g)
	if r == nil || r.leads || m == nil || p == n || !n.w.linked(n, p) {
		return
	}
	pm := p.takesPart(g)
	if pm == nil || pm.term > r.term {
		return
	}
	p.heed(g, pm, r.term)
	newer := m.lastTerm() > pm.lastTerm() || m.lastTerm() == pm.lastTerm() && m.last() >= pm.last()
	if (pm.vote != "" && pm.vote != n.name) || !newer || pm.base.exceeds(m.lastTerm(), m.last()) {
		return
	}
	pm.vote = n.name
	r.votes[p.name] = true
	n.count(g, m)
}

// heed takes a newer term.
func (n *node) heed(g group, m *member, term uint64) {
	if term > m.term {
		m.term, m.vote = term, ""
		delete(n.roles, g)
	}
}

// count makes a candidate leader that has a majority.
func (n *node) count(g group, m *member) {
	r := n.roles[g]
	c, _ := m.config()
	if r.leads || countOf(c.voters, func(v id.NodeID) bool { return r.votes[v] }) <= len(c.voters)/2 {
		return
	}
	n.w.result.Elections++
	n.w.event("%s leads %s in term %d with votes of %v", n.name, g, r.term, sortedKeys(r.votes))
	n.w.elected(n, g, m, r.term)
	r.leads, r.match = true, map[id.NodeID]uint64{}
	m.log = append(m.log, entry{term: r.term})
	r.begun = m.last()
	r.match[n.name] = m.last()
}

// leads returns what a node leads of a group.
func (n *node) leads(g group) (*role, *member) {
	r, m := n.roles[g], n.takesPart(g)
	if r == nil || m == nil || !r.leads || m.term != r.term {
		return nil, nil
	}
	return r, m
}

// replicate sends a peer what it lacks, or a part of it.
func (n *node) replicate(g group, p *node) {
	r, m := n.leads(g)
	if r == nil || p == n || !n.w.linked(n, p) {
		return
	}
	if c, _ := m.config(); !c.has(p.name) {
		return
	}
	pm := p.takesPart(g)
	if pm == nil {
		return
	}
	if pm.term > r.term {
		n.heed(g, m, pm.term)
		return
	}
	p.heed(g, pm, r.term)
	delete(p.roles, g) // a candidate of this term has lost
	most := m.last()
	if n.w.rng.IntN(2) == 0 {
		most = n.w.rng.Uint64N(most + 1)
	}
	for i := uint64(0); i < most; i++ {
		if i < pm.last() && pm.log[i].term == m.log[i].term {
			continue
		}
		pm.log = append(pm.log[:i:i], m.log[i:most]...)
		break
	}
	r.match[p.name] = max(r.match[p.name], most)
	p.commit[g] = max(p.commit[g], min(n.commit[g], most))
}

// advance commits what a majority of the voters has.
func (n *node) advance(g group) {
	r, m := n.leads(g)
	if r == nil {
		return
	}
	r.match[n.name] = m.last()
	c, _ := m.config()
	for i := m.last(); i > n.commit[g] && i >= r.begun; i-- {
		if countOf(c.voters, func(v id.NodeID) bool { return r.match[v] >= i }) > len(c.voters)/2 {
			n.w.committed(g, m, m.term, i)
			n.commit[g] = i
			return
		}
	}
}

// committedInTerm reports whether a leader may change the configuration: it has committed an entry
// of its term, and no change is under way.
func (n *node) committedInTerm(g group) bool {
	r, m := n.leads(g)
	if r == nil || n.commit[g] < r.begun {
		return false
	}
	_, at := m.config()
	return at <= n.commit[g]
}

// verified reports whether a majority of the voters confirms that this node leads.
func (n *node) verified(g group) bool {
	r, m := n.leads(g)
	if r == nil {
		return false
	}
	c, _ := m.config()
	return countOf(c.voters, func(v id.NodeID) bool {
		p := n.w.nodeOf(v)
		if p == n {
			return true
		}
		pm := p.takesPart(g)
		if pm == nil || !n.w.linked(n, p) || pm.term > r.term {
			return false
		}
		p.heed(g, pm, r.term)
		return true
	}) > len(c.voters)/2
}

// askBase asks a leader that this node reaches for the base of its member of a group, which is to begin with nothing. False if
// none gives one.
func (n *node) askBase(g group) (base, bool) {
	if n.w.cfg.Fault == FaultNoBase {
		return base{}, true
	}
	for _, i := range n.w.rng.Perm(nodes) {
		p := n.w.nodes[i]
		r, m := p.leads(g)
		if r == nil || p == n || !n.w.linked(n, p) || p.commit[g] < r.begun {
			continue
		}
		c, at := m.config()
		if g == queueGroup && (at > p.commit[g] || slices.Contains(c.voters, n.name)) {
			continue
		}
		if b := (base{r.term, p.commit[g]}); p.verified(g) {
			return b, true
		}
	}
	return base{}, false
}

// reconfigure appends a configuration.
func (n *node) reconfigure(g group, c *config) {
	r, m := n.leads(g)
	n.w.event("%s changes %s to voters %v, learners %v", n.name, g, c.voters, c.learners)
	m.log = append(m.log, entry{term: r.term, config: c})
}

// countOf counts those for which is holds.
func countOf[T any](all []T, is func(T) bool) (n int) {
	for _, x := range all {
		if is(x) {
			n++
		}
	}
	return n
}
