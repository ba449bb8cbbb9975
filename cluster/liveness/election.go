package liveness

import (
	"cmp"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

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
				c.pace.gaveUp(now.Sub(m.candidate))
				m.stood = time.Time{}
				m.skipped = 0
				a.stepDown = append(a.stepDown, g)
			}
			elections++
		case m.busy:
			elections++
		case m.state == raft.Follower && m.after(now) && c.hasNeed(now, m) && c.canWin(m):
			due = append(due, m)
		}
	}
	free := max(0, c.config.MaxElections-elections)
	if len(due) > free && free > 0 {
		slices.SortFunc(due, func(a, b *member) int {
			return cmp.Or(compareBool(b.active, a.active), a.since.Compare(b.since), cmp.Compare(a.group, b.group))
		})
	}
	for _, m := range due[:min(len(due), free)] {
		m.busy = true
		survey = append(survey, m.group)
	}
	return survey
}

// compareBool orders false before true, as package cmp does not.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// hasNeed distinguishes a group whose leader's node is lost, or reports that it does not lead, from a group that may
// learn of a leader any moment.
func (c *core) hasNeed(now time.Time, m *member) bool {
	return m.leader != "" && m.leader != c.config.Node || now.Sub(m.since) >= c.config.LeaderlessAfter
}

// canWin reports whether enough nodes are there for an election, this one among them.
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
	x := mixNode(c.config.Node, uint64(m.group)) + mix(uint64(m.attempts)<<32+uint64(m.surveys)<<16+uint64(m.skipped))
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

// conclude decides after a survey whether the member campaigns; acted must be called after it did. mine is the
// member's own log.
func (c *core) conclude(now time.Time, mine Surveyed, answers map[id.NodeID]Answer) (campaign bool) {
	m := c.groups[mine.Group]
	if m == nil {
		return false
	}
	if c.needs[m.group] == nil || m.state != raft.Follower || !c.fit(c.config.Node) {
		m.wait(now)
		return false
	}
	agree, rank := 0, 0
	if m.votes(c.config.Node) { // else it leaves, and has no vote of its own
		agree = 1
	}
	soon := now.Add(c.config.TurnAfter/3 + c.jitter(m, c.config.TurnAfter/6))
	for n, a := range answers {
		switch {
		case a.Leads, a.Campaigning:
			m.wait(soon)
			if a.Leads && n == m.leader { // what it denied while its disk hung is past
				m.denied = false
				c.assess(now, m)
			}
			return false
		case a.HasLiveLeader || !a.Votes:
			continue
		}
		agree++
		if c.standsBefore(n, a, mine, m.formerly) {
			rank++
		}
	}
	switch {
	case agree < m.majority():
		// The others may be about to find out; or it is this node that is cut off.
		m.surveys++
		wait := min(c.config.Tick<<min(m.surveys, 10), maxWait)
		m.wait(now.Add(wait/2 + c.jitter(m, wait/2)))
		return false
	case rank > m.skipped:
		m.skipped++
		m.wait(now.Add(c.patience(m)))
		return false
	}
	m.campaigns, m.stood = true, now
	return true
}

// standsBefore reports whether the other node's member stands for election before this one's: its log is newer; or as new,
// and this node alone drains; or neither does, or both do, and it led formerly; or it is its turn by lot, which spreads
// groups over nodes. A log that is newer goes first although its node drains, because others may not win without it.
func (c *core) standsBefore(other id.NodeID, a Answer, mine Surveyed, formerly id.NodeID) bool {
	self, g := c.config.Node, uint64(mine.Group)
	return cmp.Or(
		cmp.Compare(a.LastTerm, mine.LastTerm), cmp.Compare(a.LastIndex, mine.LastIndex),
		compareBool(c.config.Drains(self), c.config.Drains(other)),
		compareBool(other == formerly, self == formerly),
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
			c.checkQuorum(now, m)
			m.proving = now
		}
	}
}

// patience is how long an election may take before the candidate counts as stuck.
func (c *core) patience(m *member) time.Duration {
	usual := min(max(c.config.TurnAfter, paceFactor*time.Duration(c.pace)), maxWait/2)
	return min(usual<<min(m.attempts, 10), maxWait) + c.jitter(m, c.config.TurnAfter/2)
}
