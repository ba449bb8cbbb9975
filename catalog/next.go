package catalog

import (
	"slices"

	"github.com/quorate/quorate/id"
)

// ChangeAct is what the leader of a queue's group does next about a change of members.
type ChangeAct uint8

// The acts.
const (
	// AwaitCommit waits until the group's configuration is committed.
	AwaitCommit ChangeAct = iota
	// Revert undoes what has not taken effect of a change that was cancelled.
	Revert
	// TakeOut takes the leaving node out of the group, or notes that it is out.
	TakeOut
	// LetIn lets the joining node into the group, first without a vote, or records that it votes.
	LetIn
)

// Next returns the act that follows from the group's configuration (docs/adr/0006): who votes by the newest one, and whether
// that is committed. One that is not may be taken back by the next leader, and the node that seems to be out may have the
// only second copy of what was confirmed, so nothing is done before (PUB-7).
func (c *MemberChange) Next(committed bool, voters []id.NodeID) ChangeAct {
	votes := func(n id.NodeID) bool { return slices.Contains(voters, n) }
	rebuild := c.Join != "" && c.Join == c.Leave
	switch {
	case !committed:
		return AwaitCommit
	case c.Cancelled && (c.Join == "" || rebuild) && votes(c.Leave),
		c.Cancelled && c.Join != "" && !rebuild && !votes(c.Join):
		return Revert
	case c.Leave != "" && (rebuild || c.Join == ""):
		return TakeOut
	}
	return LetIn
}
