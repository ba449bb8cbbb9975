package catalog

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/quorate/quorate/id"
)

func (v *View) registerNode(c *RegisterNode) (Reply, *Error) {
	fault := func(arg, value, reason string) (Reply, *Error) {
		return Reply{}, &Error{
			Code: CodePreconditionFailed, Kind: "node", Name: string(c.ID),
			Arg: arg, Value: value, Reason: reason,
		}
	}
	switch {
	case c.ID == "" || len(c.ID) > MaxNodeIDBytes:
		return fault("id", strconv.Quote(string(c.ID)), fmt.Sprintf("want 1 to %d bytes", MaxNodeIDBytes))
	case len(c.Address) > MaxAddressBytes:
		return fault("address", "", fmt.Sprintf("%d bytes, the limit is %d", len(c.Address), MaxAddressBytes))
	case len(c.ClientAddress) > MaxAddressBytes:
		return fault("client address", "", fmt.Sprintf("%d bytes, the limit is %d", len(c.ClientAddress), MaxAddressBytes))
	}
	if v.Forgotten(c.ID) {
		return fault("id", "", "the node was taken out of the cluster for good; start it with an empty data directory and another id")
	}
	old, known := v.nodes.get(c.ID)
	if known && c.Epoch < old.Epoch {
		return fault("epoch", strconv.FormatUint(uint64(c.Epoch), 10), fmt.Sprintf(
			"the node has already registered with epoch %d from %q; "+
				"a second process with the same id, or an old copy of its data directory, must stop", old.Epoch, old.Address))
	}
	if known && c.Epoch > old.Epoch {
		v.endLives(func(q *QueueRecord) bool { return q.endsWith(c.ID, c.Epoch) })
	}
	v.nodes = v.nodes.set(c.ID, &Node{ID: c.ID, Address: c.Address, ClientAddress: c.ClientAddress, Epoch: c.Epoch})
	return Reply{Created: !known}, nil
}

func (v *View) forgetNode(c *ForgetNode) (Reply, *Error) {
	if _, known := v.nodes.get(c.ID); !known {
		return Reply{}, nil
	}
	ends := func(q *QueueRecord) bool { return q.endsWith(c.ID, math.MaxUint64) }
	for q := range v.Queues() {
		if ends(q) {
			continue
		}
		if q.Holds(c.ID) || q.Change != nil && q.Change.Join == c.ID {
			return Reply{}, &Error{
				Code: CodePreconditionFailed, Kind: "node", Name: string(c.ID),
				Reason: fmt.Sprintf("is a member of queue %q in vhost %q; move its members to other nodes first", q.Name, q.VHost),
			}
		}
	}
	v.endLives(ends)
	v.nodes = v.nodes.without(c.ID)
	v.forgotten = v.forgotten.set(c.ID, struct{}{})
	return Reply{Deleted: true}, nil
}

// checkMembers checks the members of a group: some, distinct, registered, with the
// preferred leader among them.
func (v *View) checkMembers(e Error, members []id.NodeID, leader id.NodeID) *Error {
	e.Code = CodePreconditionFailed
	e.Arg = "members"
	e.Value = fmt.Sprintf("%q", members)
	if len(members) == 0 || len(members) > MaxMembers {
		e.Value = strconv.Itoa(len(members))
		e.Reason = fmt.Sprintf("want 1 to %d nodes", MaxMembers)
		return &e
	}
	for i, m := range members {
		if _, known := v.nodes.get(m); !known {
			e.Reason = fmt.Sprintf("node %q is not registered in the cluster", m)
			return &e
		}
		if slices.Contains(members[:i], m) {
			e.Reason = fmt.Sprintf("node %q is named twice", m)
			return &e
		}
	}
	if !slices.Contains(members, leader) {
		e.Arg, e.Value = "leader", strconv.Quote(string(leader))
		e.Reason = fmt.Sprintf("the preferred leader must be one of the members %q", members)
		return &e
	}
	return nil
}
