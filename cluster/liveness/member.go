package liveness

import (
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/id"
)

// member is this node's member of a group.
type member struct {
	group    id.GroupID
	voters   []id.NodeID
	others   []id.NodeID // receive the log without a vote
	stands   bool        // this node is one of the voters, or leaves, and may stand
	state    raft.RaftState
	leader   id.NodeID
	term     uint64
	believes id.NodeID // counted as led by this peer; "": by none
	formerly id.NodeID // led it before it was closed on all nodes, and is to lead it again; "": nobody is preferred
	denied   bool      // that peer says that it does not lead in this term
	active   bool

	since     time.Time // in need
	candidate time.Time // since when it is a candidate
	stood     time.Time // when it was ordered to campaign; zero: that has ended
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

func (m *member) leads() bool { return m.state == raft.Leader }

func (m *member) votes(n id.NodeID) bool { return slices.Contains(m.voters, n) }

func (m *member) follows(n id.NodeID) bool {
	return m.votes(n) || slices.Contains(m.others, n)
}

func (m *member) majority() int { return len(m.voters)/2 + 1 }

func (m *member) after(t time.Time) bool { return !t.Before(m.notBefore) }

func (m *member) wait(until time.Time) { m.notBefore, m.busy = until, false }

// electionOver ends what is known of elections.
func (m *member) electionOver() {
	m.skipped, m.surveys, m.attempts, m.campaigns, m.stood, m.formerly = 0, 0, 0, false, time.Time{}, ""
}

// observed is what a member is at the moment.
type observed struct {
	voters    []id.NodeID
	nonvoters []id.NodeID
	state     raft.RaftState
	leader    id.NodeID
	term      uint64
	proven    bool // it leads, and has committed in its term
	leaving   bool // it is out of the voters, but that is not known to be committed
	behind    bool // it must not stand
	active    bool
}
