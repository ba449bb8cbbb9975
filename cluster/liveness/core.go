package liveness

import (
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

// core decides. It is not safe for concurrent use, and reads no clock.
type core struct {
	config       Config // with defaults
	stalled      bool   // this node's own disk hangs
	ticked       time.Time
	lenientUntil time.Time // until then silence proves nothing
	pace         pace

	groups   map[id.GroupID]*member
	peers    map[id.NodeID]*peer
	needs    map[id.GroupID]*member  // without a leader that is alive, as far as known here
	starved  map[id.GroupID]*member  // led here, without a quorum within reach
	unproven map[id.GroupID]*member  // led here, but nothing was committed in the term yet
	outside  map[id.GroupID]*member  // this node is no voter, as far as the member knows, or must not stand
	pushes   map[id.GroupID]struct{} // led here: a follower may not know
}

// newCore takes a Config with defaults.
func newCore(c Config) *core {
	return &core{
		config: c, groups: map[id.GroupID]*member{}, peers: map[id.NodeID]*peer{},
		needs: map[id.GroupID]*member{}, outside: map[id.GroupID]*member{},
		starved: map[id.GroupID]*member{}, unproven: map[id.GroupID]*member{}, pushes: map[id.GroupID]struct{}{},
	}
}

// peer returns the peer. A node that was never checked counts as lost.
func (c *core) peer(n id.NodeID) *peer {
	p := c.peers[n]
	if p == nil {
		p = &peer{lost: true}
		c.peers[n] = p
	}
	return p
}

// reaches reports whether a node answers.
func (c *core) reaches(n id.NodeID) bool { return n == c.config.Node || !c.peer(n).lost }

// fit reports whether a node may lead.
func (c *core) fit(n id.NodeID) bool {
	if n == c.config.Node {
		return !c.stalled
	}
	p := c.peer(n)
	return !p.lost && !p.stalled
}

// doubted finds a node whose heartbeat is late by half the time after which it is lost. Nothing
// is done for that alone, but a peer that holds it for lost is not contradicted.
func (c *core) doubted(now time.Time, n id.NodeID) bool {
	return n != c.config.Node && c.peer(n).silent >= c.config.SuspectAfter/2 && !now.Before(c.lenientUntil)
}

// hasLiveLeader reports that the member knows a leader that is alive.
func (c *core) hasLiveLeader(m *member) bool {
	if m.leads() {
		return true
	}
	return m.leader != "" && m.leader != c.config.Node && !m.denied && c.fit(m.leader)
}

// led reports whether a group has a leader that is alive and has a quorum, as far as known here.
func (c *core) led(g id.GroupID) bool {
	m := c.groups[g]
	return m != nil && c.hasLiveLeader(m) && c.starved[g] == nil
}

// actions are what the loop must do after a tick.
type actions struct {
	survey   []id.GroupID // ask the other voters' nodes, then call conclude
	ask      []id.NodeID  // ask for the groups that they lead
	stepDown []id.GroupID // candidates that are stuck, leaders without a quorum
	push     []id.GroupID // notify followers of their leader
}

// observe records the present state of a member.
func (c *core) observe(now time.Time, g id.GroupID, o observed) {
	m := c.groups[g]
	if m == nil {
		m = &member{group: g}
		c.groups[g] = m
	}
	c.count(m, -1)
	if m.leader != o.leader || m.term != o.term {
		m.denied = false
	}
	c.checkCommit(now, m, o)
	if o.state == raft.Leader && !m.stood.IsZero() {
		c.pace.won(now.Sub(m.stood))
		m.stood = time.Time{}
	}
	if o.state == raft.Candidate && (m.state != raft.Candidate || m.term != o.term) {
		m.candidate = now
	}
	m.voters, m.others, m.state, m.leader, m.term, m.active = o.voters, o.nonvoters, o.state, o.leader, o.term, o.active
	if m.stands = (m.votes(c.config.Node) || o.leaving) && !o.behind; m.stands {
		delete(c.outside, g)
	} else {
		c.outside[g] = m
	}
	for _, v := range m.voters {
		if v != c.config.Node {
			c.peer(v)
		}
	}
	c.count(m, +1)
	c.assess(now, m)
	c.checkQuorum(now, m)
}

// forget drops a member that was closed.
func (c *core) forget(g id.GroupID) {
	if m := c.groups[g]; m != nil {
		c.count(m, -1)
		delete(c.groups, g)
		delete(c.needs, g)
		delete(c.starved, g)
		delete(c.unproven, g)
		delete(c.outside, g)
		delete(c.pushes, g)
	}
}

// count keeps the digests of peers: by = +1 adds the member as it is, -1 takes it out.
func (c *core) count(m *member, by int) {
	change := (*digest).add
	if by < 0 {
		change = (*digest).remove
	} else if m.believes = ""; m.votes(c.config.Node) && m.leader != c.config.Node && !m.leads() {
		m.believes = m.leader
	}
	if m.leads() {
		for _, v := range m.voters {
			if v != c.config.Node {
				change(&c.peer(v).led, m.group)
			}
		}
	}
	if m.believes != "" {
		change(&c.peer(m.believes).believed, m.group)
	}
}

// assess finds out whether the member is in need of a leader.
func (c *core) assess(now time.Time, m *member) {
	if !m.stands || c.hasLiveLeader(m) {
		delete(c.needs, m.group)
		m.electionOver()
		return
	}
	if c.needs[m.group] == nil {
		c.needs[m.group] = m
		m.since, m.notBefore = now, now
	}
}

// requestElection takes a group in need for one that has waited long enough.
func (c *core) requestElection(now time.Time, g id.GroupID, formerly id.NodeID) {
	m := c.needs[g]
	if m == nil {
		return
	}
	m.formerly = formerly
	if !m.busy {
		m.since, m.notBefore = now.Add(-c.config.LeaderlessAfter), now
	}
}

// checkQuorum finds out whether a leader has a quorum within reach.
func (c *core) checkQuorum(now time.Time, m *member) {
	reached := 0
	for _, v := range m.voters {
		if c.reaches(v) {
			reached++
		}
	}
	if !m.leads() || reached >= m.majority() {
		delete(c.starved, m.group)
		m.starving = time.Time{}
	} else if c.starved[m.group] == nil {
		c.starved[m.group] = m
		m.starving = now
	}
}

// checkCommit tracks a leader that has not committed in its term yet.
func (c *core) checkCommit(now time.Time, m *member, o observed) {
	if o.state != raft.Leader || o.proven {
		delete(c.unproven, m.group)
		return
	}
	if c.unproven[m.group] == nil || m.term != o.term {
		c.unproven[m.group] = m
		m.proving, m.pushAt = now, now.Add(c.config.ProveAfter)
	}
}

// idle reports that nothing is to be done until something changes.
func (c *core) idle() bool {
	if len(c.needs)+len(c.starved)+len(c.unproven)+len(c.pushes) > 0 {
		return false
	}
	for _, p := range c.peers {
		if !p.mismatchedSince.IsZero() || p.toAsk {
			return false
		}
	}
	return true
}

// doubtful returns groups that are not as they should be: all, or up to a number of each kind,
// others each time.
func (c *core) doubtful(most int) []id.GroupID {
	var all []id.GroupID
	for _, set := range []map[id.GroupID]*member{c.needs, c.starved, c.unproven} {
		n := 0
		for g := range set {
			if n++; n > most {
				break
			}
			all = append(all, g)
		}
	}
	return all
}
