package catalog

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/quorate/quorate/id"
)

// byUID returns a queue, or the error for one that was deleted meanwhile.
func (v *View) byUID(uid id.QueueUID) (*QueueRecord, *Error) {
	q, ok := v.queues.get(uid)
	if !ok {
		return nil, &Error{
			Code: CodeNotFound, Kind: "queue", Name: uid.String(),
			Reason: "no queue has this UID (any more)",
		}
	}
	return q, nil
}

// replaceQueue replaces the record of a queue.
func (v *View) replaceQueue(q *QueueRecord) Reply {
	q.Index = v.index
	h, _ := v.vhosts.get(q.VHost)
	v.putQueue(h, q)
	return Reply{UID: q.UID}
}

// setQueueMembers overwrites the members and drops the change under way: its steps would no longer
// fit. A transient queue takes the present life of its new node as its home.
func (v *View) setQueueMembers(c *SetQueueMembers) (Reply, *Error) {
	old, err := v.byUID(c.UID)
	if err != nil {
		return Reply{}, err
	}
	q := *old
	q.Members, q.Leader, q.Index, q.Changed, q.Change = c.Members, c.Leader, v.index, v.index, nil
	if c.Leader == "" {
		q.Leader = keptLeader(old.Leader, c.Members)
	}
	e := Error{Kind: "queue", Name: q.Name, VHost: q.VHost}
	if err := v.checkMembers(e, q.Members, q.Leader); err != nil {
		return Reply{}, err
	}
	if n, ok := v.nodes.get(q.Members[0]); !q.Durable && ok {
		q.Home = n.Epoch
	}
	return v.replaceQueue(&q), nil
}

// keptLeader returns the preferred leader if it remains a member, otherwise the first member.
func keptLeader(leader id.NodeID, members []id.NodeID) id.NodeID {
	for _, m := range members {
		if m == leader {
			return leader
		}
	}
	if len(members) == 0 {
		return ""
	}
	return members[0]
}

// beginMemberChange records the change under the index of this command, which becomes its ID. A repeat of the one
// under way succeeds, so that a proposer may retry.
func (v *View) beginMemberChange(c *BeginMemberChange) (Reply, *Error) {
	old, err := v.byUID(c.UID)
	if err != nil {
		return Reply{}, err
	}
	e := Error{Code: CodePreconditionFailed, Kind: "queue", Name: old.Name, VHost: old.VHost, Arg: "members"}
	if g := old.Change; g != nil {
		if g.Join == c.Join && g.Leave == c.Leave {
			return Reply{UID: c.UID}, nil
		}
		e.Reason = fmt.Sprintf("another change goes on: %s; wait until it is done, or cancel it", g)
		return Reply{}, &e
	}
	if e.Reason = v.cannotChange(old, c); e.Reason != "" {
		return Reply{}, &e
	}
	q := *old
	q.Changed = v.index
	q.Change = &MemberChange{ID: v.index, Join: c.Join, Leave: c.Leave, Size: c.Size}
	r := v.replaceQueue(&q)
	r.Created = true
	return r, nil
}

// cannotChange returns why a change of members is impossible; "" if it is possible.
func (v *View) cannotChange(q *QueueRecord, c *BeginMemberChange) string {
	member := slices.Contains(q.Members, c.Join)
	_, registered := v.nodes.get(c.Join)
	switch {
	case !q.Durable:
		return "it is not durable: it lives on its node alone and ends with that"
	case c.Join == "" && c.Leave == "":
		return "nobody shall join or leave: name a node"
	case c.Leave != "" && !slices.Contains(q.Members, c.Leave):
		return fmt.Sprintf("node %q cannot leave, it is not one of the members %q", c.Leave, q.Members)
	case c.Join != "" && !registered:
		return fmt.Sprintf("node %q cannot join, it is not registered in the cluster", c.Join)
	case member && c.Join != c.Leave:
		return fmt.Sprintf("node %q cannot join, it is one of the members %q", c.Join, q.Members)
	case (c.Join == "" || member) && len(q.Members) == 1:
		return fmt.Sprintf("node %q is the only member; the queue's messages are nowhere else", c.Leave)
	case c.Leave == "" && len(q.Members) >= MaxMembers:
		return fmt.Sprintf("it has %d members, the limit is %d", len(q.Members), MaxMembers)
	case c.Size < 0 || c.Size > MaxMembers:
		return fmt.Sprintf("want a size of 1 to %d, or 0 to keep it", MaxMembers)
	}
	return ""
}

// completeMemberStep notes that the group has taken a step. Steps are refused unless they name the
// change under way: a late report of an older change must not alter this one. The change is over
// when nobody is left to join or leave.
func (v *View) completeMemberStep(c *CompleteMemberStep) (Reply, *Error) {
	old, err := v.byUID(c.UID)
	if err != nil {
		return Reply{}, err
	}
	g := old.Change
	fault := func(reason string) (Reply, *Error) {
		return Reply{}, &Error{
			Code: CodePreconditionFailed, Kind: "queue", Name: old.Name, VHost: old.VHost,
			Arg: "change", Value: strconv.FormatUint(c.Change, 10), Reason: reason,
		}
	}
	if g == nil || g.ID != c.Change {
		return fault("this change of members does not go on any more")
	}
	next, q := *g, *old
	q.Members = slices.Clone(old.Members)
	switch c.Step {
	case StepNone:
		return Reply{UID: q.UID}, nil
	case StepJoined:
		if g.Join == "" || g.Join == g.Leave {
			return fault("nobody can join now")
		}
		q.Members = append(q.Members, g.Join)
		next.Join = ""
	case StepLeft:
		if g.Leave == "" || len(q.Members) == 1 {
			return fault("nobody can leave now")
		}
		q.Members = slices.DeleteFunc(q.Members, func(n id.NodeID) bool { return n == g.Leave })
		q.Leader = keptLeader(q.Leader, q.Members)
		next.Leave = ""
	case StepCancelled:
		next.Join, next.Leave, next.Size = "", "", 0
	default:
		return fault(fmt.Sprintf("step %d is unknown to this build", c.Step))
	}
	q.Change = &next
	if next.Join == "" && next.Leave == "" {
		q.Change = nil
		if next.Size != 0 {
			q.Size = next.Size
		}
	}
	return v.replaceQueue(&q), nil
}

// cancelMemberChange asks the group's leader to stop. Only that leader knows how far the change has
// come; it answers by CompleteMemberStep.
func (v *View) cancelMemberChange(c *CancelMemberChange) (Reply, *Error) {
	old, ok := v.queues.get(c.UID)
	if !ok || old.Change == nil || old.Change.ID != c.Change || old.Change.Cancelled {
		return Reply{UID: c.UID}, nil
	}
	q, next := *old, *old.Change
	next.Cancelled = true
	q.Change = &next
	return v.replaceQueue(&q), nil
}

// String describes who joins and who leaves.
func (g *MemberChange) String() string {
	switch {
	case g.Join != "" && g.Join == g.Leave:
		return fmt.Sprintf("the member on node %q is built anew", g.Join)
	case g.Leave == "":
		return fmt.Sprintf("node %q joins", g.Join)
	case g.Join == "":
		return fmt.Sprintf("node %q leaves", g.Leave)
	}
	return fmt.Sprintf("node %q joins in the place of node %q", g.Join, g.Leave)
}
