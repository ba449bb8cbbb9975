package storesim

import (
	"slices"

	"github.com/quorate/quorate/catalog"
)

// publish appends a message to the queue.
func (n *node) publish() {
	if r, m := n.leads(queueGroup); r != nil {
		n.w.payload++
		m.log = append(m.log, entry{term: r.term, message: n.w.payload})
	}
}

func (n *node) record() *catalog.QueueRecord {
	r, _ := n.view().QueueByUID(n.w.queue)
	return r
}

// joins returns the change by which this node must join, or nil.
func (n *node) joins(r *catalog.QueueRecord) *catalog.MemberChange {
	if r.Change == nil || r.Change.Join != n.name || slices.Contains(r.Members, n.name) {
		return nil
	}
	return r.Change
}

// lookAfterMembers opens, wipes and repairs this node's member of the queue, as the host
// does by its view.
func (n *node) lookAfterMembers() {
	r := n.record()
	if !n.up || r == nil {
		return
	}
	m, g := n.disk.members[queueGroup], n.joins(r)
	switch {
	case !r.Holds(n.name):
		if m != nil && n.current() {
			n.drop()
		}
	case g != nil:
		if n.current() && (m == nil || m.joined != g.ID) && !g.Cancelled {
			n.join(g)
		}
	case m == nil && n.current():
		if r.Changed != 0 && n.w.cfg.Fault != FaultEmptyMember {
			n.repair(r)
			return
		}
		n.beginQueue(r)
	case m != nil && len(m.log) == 0 && m.joined == 0 && r.Changed == 0 && n.w.rng.IntN(4) == 0:
		n.bootstrap(r)
	}
}

// drop deletes what this node has of the queue's group, which has to go on without it.
func (n *node) drop() {
	if c := n.w.newest(queueGroup); c != nil && slices.Contains(c.voters, n.name) {
		n.w.broke("PUB-7", "%s deletes its member of the queue, which counts by the committed configuration with the voters %v", n.name, c.voters)
	}
	n.disk.members[queueGroup] = nil
	delete(n.roles, queueGroup)
}

// join begins a member of a change, with nothing, once it has its base.
func (n *node) join(g *catalog.MemberChange) {
	n.disk.members[queueGroup] = nil
	n.commit[queueGroup] = 0
	delete(n.roles, queueGroup)
	if b, given := n.askBase(queueGroup); given {
		n.disk.members[queueGroup] = begun(g.ID, b)
		n.w.event("%s begins to join the queue by change %d, with base %v", n.name, g.ID, b)
	}
}

// beginQueue begins a member of the declaration.
func (n *node) beginQueue(r *catalog.QueueRecord) {
	n.disk.members[queueGroup] = &member{}
	n.commit[queueGroup] = 0
	if r.Leader == n.name && r.Changed == 0 {
		n.bootstrap(r)
	}
}

// bootstrap writes the first configuration, which all members of the declaration have alike.
func (n *node) bootstrap(r *catalog.QueueRecord) {
	m := n.member(queueGroup)
	if n.w.first == nil {
		n.w.first = &config{voters: slices.Clone(r.Members)}
	}
	m.term, m.log = max(m.term, 1), []entry{{term: 1, config: n.w.first}}
}

// repair asks for a lost member to be taken out and to join anew.
func (n *node) repair(r *catalog.QueueRecord) {
	if n.repairing > n.w.now || r.Change != nil || len(r.Members) < 2 {
		return
	}
	n.repairing = n.w.now + patience
	n.proposeAnywhere(&catalog.BeginMemberChange{UID: r.UID, Join: n.name, Leave: n.name}, func(catalog.Reply) { n.repairing = 0 })
}

// completeQueue gives the queue a third member, as the catalog's leader does.
func (n *node) completeQueue() {
	if r, _ := n.leads(catalogGroup); r == nil || n.w.rng.IntN(4) > 0 {
		return
	}
	r := n.record()
	if r == nil || r.Change != nil || len(r.Members) >= 3 {
		return
	}
	for node := range n.view().Nodes() {
		if !slices.Contains(r.Members, node.ID) {
			n.propose(n, &catalog.BeginMemberChange{UID: r.UID, Join: node.ID}, func(catalog.Reply) {})
			return
		}
	}
}

// moveQueue gives a member of the queue to the node that has none, as the catalog's leader does for an operator.
func (n *node) moveQueue() {
	if r, _ := n.leads(catalogGroup); r == nil || n.w.quiet {
		return
	}
	r := n.record()
	if r == nil || r.Change != nil || len(r.Members) < 3 {
		return
	}
	for node := range n.view().Nodes() {
		if !slices.Contains(r.Members, node.ID) {
			leaves := r.Members[n.w.rng.IntN(len(r.Members))]
			n.propose(n, &catalog.BeginMemberChange{UID: r.UID, Join: node.ID, Leave: leaves}, func(reply catalog.Reply) {
				if reply.Err == nil {
					n.w.result.Moved++
					n.w.event("%s is to have the queue's member of %s", node.ID, leaves)
				}
			})
			return
		}
	}
}

// changeMembers takes the next step of the change of the queue's members, as its leader
// (docs/adr/0006).
func (n *node) changeMembers() {
	role, m := n.leads(queueGroup)
	r := n.record()
	if role == nil || r == nil || r.Change == nil {
		return
	}
	g := r.Change
	c, _ := m.config()
	switch g.Next(n.committedInTerm(queueGroup), c.voters) {
	case catalog.AwaitCommit:
	case catalog.Revert:
		switch {
		case !slices.Contains(c.learners, g.Join):
			n.completeFound(role, g, catalog.StepCancelled)
		case n.granted(role, g):
			n.changeTo(c.without(g.Join))
		}
	case catalog.TakeOut:
		switch {
		case !c.has(g.Leave):
			n.completeFound(role, g, catalog.StepLeft)
		case g.Leave == n.name: // another member has to lead
			delete(n.roles, queueGroup)
		case n.granted(role, g):
			n.changeTo(c.without(g.Leave))
		}
	case catalog.LetIn:
		n.letIn(role, g, c)
	}
}

// letIn makes a node a member, first without a vote.
func (n *node) letIn(role *role, g *catalog.MemberChange, c *config) {
	switch {
	case slices.Contains(c.voters, g.Join):
		n.completeFound(role, g, catalog.StepJoined)
	case !slices.Contains(c.learners, g.Join):
		if n.granted(role, g) {
			n.changeTo(c.with(c.voters, append(slices.Clone(c.learners), g.Join)))
		}
	case n.caughtUp(role, g) && n.granted(role, g):
		d := c.without(g.Join)
		n.changeTo(d.with(append(d.voters, g.Join), d.learners))
	}
}

// changeTo changes who is in the queue's group, if the change before is committed: Raft takes one at a time.
func (n *node) changeTo(c *config) {
	if n.committedInTerm(queueGroup) {
		n.reconfigure(queueGroup, c)
	}
}

// caughtUp reports whether the joining member is that of the change, and has all that is
// committed.
func (n *node) caughtUp(r *role, g *catalog.MemberChange) bool {
	p := n.w.nodeOf(g.Join)
	m := p.disk.members[queueGroup]
	return n.w.linked(n, p) && m != nil && m.joined == g.ID && r.match[g.Join] >= n.commit[queueGroup]
}

// granted asks the catalog whether the change is current; true once it has confirmed that.
func (n *node) granted(r *role, g *catalog.MemberChange) bool {
	if r.granted == g.ID {
		r.granted = 0
		return true
	}
	n.step(r, g, catalog.StepNone)
	return false
}

// completeFound writes that a step is done which the configuration shows, if a majority confirms that this node leads: the
// configuration may be from before the change.
func (n *node) completeFound(r *role, g *catalog.MemberChange, step catalog.MemberStep) {
	if n.verified(queueGroup) {
		n.step(r, g, step)
	}
}

// step writes that a step of a change is done, once at a time: the answer may be long in coming.
func (n *node) step(r *role, g *catalog.MemberChange, step catalog.MemberStep) {
	if r.waiting > n.w.now {
		return
	}
	r.waiting = n.w.now + patience
	n.proposeAnywhere(&catalog.CompleteMemberStep{UID: n.w.queue, Change: g.ID, Step: step}, func(reply catalog.Reply) {
		r.waiting = 0
		if reply.Err == nil && step == catalog.StepNone {
			r.granted = g.ID
		}
	})
}
