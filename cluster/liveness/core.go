package liveness

import (
	"slices"
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
	needs    map[id.GroupID]*member // without a leader that is alive, as far as known here
	starved  map[id.GroupID]*member // led here, without a quorum within reach
	unproven map[id.GroupID]*member // led here, but nothing was committed in the term yet
	outside  map[id.GroupID]*member // this node is no voter, as far as the member knows
	pushes   []id.GroupID           // led here: a follower may not know
}

// member is this node's member of a group.
type member struct {
	group    id.GroupID
	voters   []id.NodeID
	others   []id.NodeID // receive the log without a vote
	self     bool        // this node is one of the voters
	state    raft.RaftState
	leader   id.NodeID
	term     uint64
	believes id.NodeID // counted as led by this peer; "": by none
	denied   bool      // that peer says that it does not lead in this term
	active   bool

	since     time.Time // in need
	candidate time.Time // since when it is a candidate
	stood     time.Time // when it was told to stand; zero: that has ended
	starving  time.Time
	proving   time.Time // since when it leads without a commit
	pushAt    time.Time // not before this is it pushed again to prove itself
	notBefore time.Time // the next attempt
	busy      bool      // an attempt is under way
	campaigns bool      // it counts as an election
	skipped   int       // candidates of lower rank that were waited for
	surveys   int       // surveys that found no majority
	attempts  int       // elections that were lost
}

func (m *member) leads() bool            { return m.state == raft.Leader }
func (m *member) votes(n id.NodeID) bool { return slices.Contains(m.voters, n) }
func (m *member) follows(n id.NodeID) bool {
	return m.votes(n) || slices.Contains(m.others, n)
}
func (m *member) majority() int          { return len(m.voters)/2 + 1 }
func (m *member) after(t time.Time) bool { return !t.Before(m.notBefore) }
func (m *member) wait(until time.Time)   { m.notBefore, m.busy = until, false }

// electionOver ends what is known of elections.
func (m *member) electionOver() {
	m.skipped, m.surveys, m.attempts, m.campaigns, m.stood = 0, 0, 0, false, time.Time{}
}

// newCore takes a Config with defaults.
func newCore(c Config) *core {
	return &core{
		config: c, groups: map[id.GroupID]*member{}, peers: map[id.NodeID]*peer{},
		needs: map[id.GroupID]*member{}, outside: map[id.GroupID]*member{},
		starved: map[id.GroupID]*member{}, unproven: map[id.GroupID]*member{},
	}
}

// observed is what a member is at the moment.
type observed struct {
	voters    []id.NodeID
	nonvoters []id.NodeID
	state     raft.RaftState
	leader    id.NodeID
	term      uint64
	proven    bool // it leads, and has committed in its term
	active    bool
}

// observe takes what a member is now.
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
	if m.self = m.votes(c.config.Node); m.self {
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
	}
}

// count keeps the digests of peers: by = +1 adds the member as it is, -1 takes it out.
func (c *core) count(m *member, by int) {
	change := (*digest).add
	if by < 0 {
		change = (*digest).remove
	} else if m.believes = ""; m.self && m.leader != c.config.Node && !m.leads() {
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

// assess finds out whether the member is in need of a leader.
func (c *core) assess(now time.Time, m *member) {
	if !m.self || c.hasLiveLeader(m) {
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
func (c *core) requestElection(now time.Time, g id.GroupID) {
	if m := c.needs[g]; m != nil && !m.busy {
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

// checkCommit notes a leader that has not committed in its term yet.
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

// help finds leaders that do not get to commit although their quorum's nodes are there: a
// follower may have missed what it was sent. If telling it again is no help, the leader
// gives up, and the next one begins afresh with all of them.
func (c *core) help(now time.Time, a *actions) {
	for g, m := range c.unproven {
		switch {
		case m.busy || c.starved[g] != nil || now.Before(m.pushAt):
		case now.Sub(m.proving) >= giveUpAfter*c.config.ProveAfter:
			m.busy = true
			a.stepDown = append(a.stepDown, g)
		default:
			m.pushAt = now.Add(c.config.ProveAfter)
			a.push = append(a.push, g)
		}
	}
}

// idle reports that nothing is to be done until something changes.
func (c *core) idle() bool {
	if len(c.needs)+len(c.starved)+len(c.unproven)+len(c.pushes) > 0 {
		return false
	}
	for _, p := range c.peers {
		if !p.mismatchedSince.IsZero() {
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

// actions are what the loop shall do after a tick.
type actions struct {
	survey   []id.GroupID // ask the other voters' nodes, then call conclude
	ask      []id.NodeID  // ask for the groups that they lead
	stepDown []id.GroupID // candidates that are stuck, leaders without a quorum
	push     []id.GroupID // notify followers of their leader
}

// tick decides what is to be done. awake and look were called before.
func (c *core) tick(now time.Time) actions {
	a := actions{ask: c.mismatched(now)}
	n := min(len(c.pushes), maxPushes)
	a.push, c.pushes = c.pushes[:n:n], c.pushes[n:]
	for g, m := range c.starved {
		if !m.busy && now.Sub(m.starving) >= c.config.QuorumTimeout {
			m.busy = true
			a.stepDown = append(a.stepDown, g)
		}
	}
	c.help(now, &a)
	a.survey = c.elect(now, &a)
	return a
}

// answer is what a peer is to know of a group here, but for the log. Whether this member is a voter
// is for the peer to know: one that was just opened has no configuration yet, and one
// that was just promoted an old one; raft lets both vote.
func (c *core) answer(now time.Time, g id.GroupID) Answer {
	m := c.groups[g]
	if m == nil {
		return Answer{}
	}
	return Answer{
		Leads:         m.leads() && !c.stalled,
		HasLiveLeader: !m.leads() && c.hasLiveLeader(m) && !c.doubted(now, m.leader),
		Votes:         !m.leads() && !c.stalled,
		Campaigning: m.campaigns ||
			m.state == raft.Candidate && now.Sub(m.candidate) < c.patience(m),
	}
}
