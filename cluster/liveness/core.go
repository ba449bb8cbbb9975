package liveness

import (
	"cmp"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

// core decides. It is not safe for concurrent use, and reads no clock.
type core struct {
	config  Config // with defaults
	stalled bool   // this node's own disk hangs
	ticked  time.Time
	lenient time.Time // until then silence proves nothing
	pace    pace

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
	turn      int       // candidates of lower rank had their turn
	tries     int       // surveys that found no majority
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

// settle ends what is known of elections.
func (m *member) settle() {
	m.turn, m.tries, m.attempts, m.campaigns, m.stood = 0, 0, 0, false, time.Time{}
}

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
	c.prove(now, m, o)
	if o.state == raft.Leader && !m.stood.IsZero() {
		c.pace.took(now.Sub(m.stood))
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
	c.starve(now, m)
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

// content tells that the member knows a leader that is alive.
func (c *core) content(m *member) bool {
	if m.leads() {
		return true
	}
	return m.leader != "" && m.leader != c.config.Node && !m.denied && c.fit(m.leader)
}

// led tells whether a group has a leader that is alive and has a quorum, as far as known here.
func (c *core) led(g id.GroupID) bool {
	m := c.groups[g]
	return m != nil && c.content(m) && c.starved[g] == nil
}

// assess finds out whether the member is in need of a leader.
func (c *core) assess(now time.Time, m *member) {
	if !m.self || c.content(m) {
		delete(c.needs, m.group)
		m.settle()
		return
	}
	if c.needs[m.group] == nil {
		c.needs[m.group] = m
		m.since, m.notBefore = now, now
	}
}

// urge takes a group in need for one that has waited long enough.
func (c *core) urge(now time.Time, g id.GroupID) {
	if m := c.needs[g]; m != nil && !m.busy {
		m.since, m.notBefore = now.Add(-c.config.LeaderlessAfter), now
	}
}

// starve finds out whether a leader has a quorum within reach.
func (c *core) starve(now time.Time, m *member) {
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

// prove takes note of a leader that has not committed in its term yet.
func (c *core) prove(now time.Time, m *member, o observed) {
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

// calm tells that nothing is to be done until something changes.
func (c *core) calm() bool {
	if len(c.needs)+len(c.starved)+len(c.unproven)+len(c.pushes) > 0 {
		return false
	}
	for _, p := range c.peers {
		if !p.oddSince.IsZero() {
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
	push     []id.GroupID // tell followers who leads
}

// tick decides what is to be done. awake and look were called before.
func (c *core) tick(now time.Time) actions {
	a := actions{ask: c.odd(now)}
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

// elect returns the groups to survey, and helps candidates that are stuck.
func (c *core) elect(now time.Time, a *actions) (survey []id.GroupID) {
	if len(c.needs) == 0 {
		c.pace = 0 // it was that of a crowd
	}
	elections := 0
	var due []*member
	for g, m := range c.needs {
		switch {
		case m.state == raft.Candidate:
			if !m.busy && now.Sub(m.candidate) >= c.patience(m) {
				// It stood against another one, or those who vote were slow: all begin again
				// by rank, with more time.
				m.busy = true
				m.attempts++
				c.pace.gave(now.Sub(m.candidate))
				m.stood = time.Time{}
				m.turn = 0
				a.stepDown = append(a.stepDown, g)
			}
			elections++
		case m.busy:
			elections++
		case m.state == raft.Follower && m.after(now) && c.hasNeed(now, m) && c.canWin(m):
			due = append(due, m)
		}
	}
	if free := max(0, c.config.MaxElections-elections); len(due) > free {
		slices.SortFunc(due, func(a, b *member) int {
			return cmp.Or(compareBool(b.active, a.active), a.since.Compare(b.since), cmp.Compare(a.group, b.group))
		})
		due = due[:free]
	}
	for _, m := range due {
		m.busy = true
		survey = append(survey, m.group)
	}
	return survey
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// hasNeed tells a group whose leader's node is lost, or says that it does not lead, from
// one that may hear of a leader any moment.
func (c *core) hasNeed(now time.Time, m *member) bool {
	return m.leader != "" && m.leader != c.config.Node || now.Sub(m.since) >= c.config.LeaderlessAfter
}

// canWin tells whether enough nodes are there for an election, this one among them.
func (c *core) canWin(m *member) bool {
	if !c.fit(c.config.Node) {
		return false
	}
	reached := 0
	for _, v := range m.voters {
		if c.reaches(v) {
			reached++
		}
	}
	return reached >= m.majority()
}

// jitter is a share of d that differs from group to group, node to node and attempt to attempt.
func (c *core) jitter(m *member, d time.Duration) time.Duration {
	x := mixNode(c.config.Node, uint64(m.group)) + mix(uint64(m.attempts)<<32+uint64(m.tries)<<16+uint64(m.turn))
	return time.Duration(mix(x) % uint64(max(d, 1)))
}

// others returns the nodes to ask about a group in need.
func (c *core) others(g id.GroupID) []id.NodeID {
	m := c.groups[g]
	if m == nil {
		return nil
	}
	var nodes []id.NodeID
	for _, v := range m.voters {
		if v != c.config.Node && c.reaches(v) {
			nodes = append(nodes, v)
		}
	}
	return nodes
}

// conclude decides after a survey whether the member shall campaign; acted must be called
// after it did. mine is the member's own log.
func (c *core) conclude(now time.Time, mine Surveyed, answers map[id.NodeID]Answer) (campaign bool) {
	m := c.groups[mine.Group]
	if m == nil {
		return false
	}
	if c.needs[m.group] == nil || m.state != raft.Follower || !c.fit(c.config.Node) {
		m.wait(now)
		return false
	}
	agree, rank := 1, 0
	soon := now.Add(c.config.TurnAfter/3 + c.jitter(m, c.config.TurnAfter/6))
	for n, a := range answers {
		switch {
		case a.Leads, a.Campaigning:
			m.wait(soon)
			if a.Leads && n == m.leader { // what it denied, while its disk hung, is so no more
				m.denied = false
				c.assess(now, m)
			}
			return false
		case a.Content || !a.Votes:
			continue
		}
		agree++
		if newer(n, a, c.config.Node, mine) {
			rank++
		}
	}
	switch {
	case agree < m.majority():
		// The others may be about to find out; or it is this node that is cut off.
		m.tries++
		wait := min(c.config.Tick<<min(m.tries, 10), maxWait)
		m.wait(now.Add(wait/2 + c.jitter(m, wait/2)))
		return false
	case rank > m.turn:
		m.turn++
		m.wait(now.Add(c.patience(m)))
		return false
	}
	m.campaigns, m.stood = true, now
	return true
}

// newer tells whether the other node's member stands for election before this one's: its
// log is newer, or as new and it is its turn by lot, which spreads groups over nodes.
func newer(other id.NodeID, a Answer, self id.NodeID, mine Surveyed) bool {
	g := uint64(mine.Group)
	return cmp.Or(
		cmp.Compare(a.LastTerm, mine.LastTerm), cmp.Compare(a.LastIndex, mine.LastIndex),
		cmp.Compare(mixNode(other, g), mixNode(self, g)), cmp.Compare(other, self)) > 0
}

// acted ends what began with a campaign or a stepDown; the member is observed after it.
func (c *core) acted(now time.Time, g id.GroupID) {
	if m := c.groups[g]; m != nil {
		if m.campaigns {
			m.campaigns = false
			m.candidate = now
		}
		m.wait(now.Add(c.jitter(m, c.config.TurnAfter/2)))
		if m.leads() { // it did not step down: begin again
			delete(c.starved, g)
			c.starve(now, m)
			m.proving = now
		}
	}
}

// answer tells a peer about a group here, but for the log. Whether this member is a voter
// is for the peer to know: one that was just opened has no configuration yet, and one
// that was just promoted an old one; raft lets both vote.
func (c *core) answer(now time.Time, g id.GroupID) Answer {
	m := c.groups[g]
	if m == nil {
		return Answer{}
	}
	return Answer{
		Leads:   m.leads() && !c.stalled,
		Content: !m.leads() && c.content(m) && !c.doubted(now, m.leader),
		Votes:   !m.leads() && !c.stalled,
		Campaigning: m.campaigns ||
			m.state == raft.Candidate && now.Sub(m.candidate) < c.patience(m),
	}
}
