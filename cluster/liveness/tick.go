package liveness

import (
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

// tick decides what is to be done. awake and look were called before.
func (c *core) tick(now time.Time) actions {
	a := actions{ask: c.mismatched(now), push: c.pushed()}
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

// pushed takes some of the groups whose followers are to be notified.
func (c *core) pushed() (groups []id.GroupID) {
	for g := range c.pushes {
		if len(groups) == maxPushes {
			break
		}
		groups = append(groups, g)
		delete(c.pushes, g)
	}
	return groups
}

// help finds leaders that do not get to commit although their quorum's nodes are there: a
// follower may have missed what it was sent. If sending it again is no help, the leader
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

// answer returns what a peer must know about a group here, except the log. Whether this member is a voter, the peer
// must know: a member that was just opened has no configuration yet, and one that was just promoted has an old one;
// raft lets both vote.
func (c *core) answer(now time.Time, g id.GroupID) Answer {
	m := c.groups[g]
	if m == nil {
		return Answer{}
	}
	live := !m.leads() && c.hasLiveLeader(m) && !c.doubted(now, m.leader)
	if live && !m.votes(c.config.Node) {
		// It voted for that leader and was not contacted since, so no heartbeat would ever show that the leader has
		// stepped down. The leader is asked, so that this answer does not keep the others from electing one.
		c.peer(m.leader).toAsk = true
	}
	return Answer{
		Leads:         m.leads() && !c.stalled,
		HasLiveLeader: live,
		Votes:         !m.leads() && !c.stalled,
		Campaigning: m.campaigns ||
			m.state == raft.Candidate && now.Sub(m.candidate) < c.patience(m),
	}
}
