package catalog

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/quorate/quorate/id"
)

// kind picks the older form where the node names no store: nodes before VersionStores read no
// other.
func (c *RegisterNode) kind() commandKind {
	if c.Store == "" {
		return kindRegisterNode
	}
	return kindRegisterStore
}

// registerNode takes a start of a node in. A new epoch ends the queues that lived with the former
// one. A new store with an empty member makes the former member leave the catalog group
// first: an empty one must not vote in its place (RE-9).
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
	case len(c.Store) > MaxStoreBytes:
		return fault("store", "", fmt.Sprintf("%d bytes, the limit is %d", len(c.Store), MaxStoreBytes))
	case c.Store == "" && v.version >= VersionStores:
		return fault("store", "", "the node does not say which store it has, as it must from version 2 on; start it with a build of this cluster")
	}
	old, known := v.nodes.get(c.ID)
	if arg, value, reason := v.cannotRegister(c, old); reason != "" {
		return fault(arg, value, reason)
	}
	if known && c.Epoch > old.Epoch {
		v.endLives(func(q *QueueRecord) bool { return q.endsWith(c.ID, c.Epoch) })
	}
	n := Node{ID: c.ID, Address: c.Address, ClientAddress: c.ClientAddress, Epoch: c.Epoch, Store: c.Store}
	taken := !known || old.Vacant
	if known {
		n.Former, n.Out = old.Former, old.Out
	}
	if taken && c.Empty {
		v.leave(c.ID)
	}
	v.forgotten = v.forgotten.without(c.ID)
	v.nodes = v.nodes.set(c.ID, &n)
	return Reply{Created: taken}, nil
}

// cannotRegister returns why a start of a node is refused, and which field is to blame. old is the
// node's record; nil: none.
func (v *View) cannotRegister(c *RegisterNode, old *Node) (arg, value, reason string) {
	epoch := strconv.FormatUint(uint64(c.Epoch), 10)
	if gone, was := v.forgotten.get(c.ID); was {
		switch {
		case c.Store == "":
			return "id", "", "the node was taken out of the cluster for good; start it with an empty data directory and another id"
		case !c.Fresh || c.Store == gone.store:
			return "store", string(c.Store), ForgottenStore(c.ID)
		case c.Epoch <= gone.epoch:
			return "epoch", epoch, earlyEpoch(gone.epoch)
		}
	}
	switch {
	case old == nil:
		return "", "", ""
	case old.Vacant && c.Fresh && c.Store != old.Former && c.Epoch <= old.Epoch:
		return "epoch", epoch, earlyEpoch(old.Epoch)
	case !old.Vacant && c.Epoch < old.Epoch && (old.Store == "" || c.Store == old.Store):
		return "epoch", epoch, fmt.Sprintf("the node has already registered with epoch %d from %q; "+
			"a second process with the same id, or an old copy of its data directory, must stop", old.Epoch, old.Address)
	}
	return "store", string(c.Store), old.CannotHave(c.Store, c.Fresh, c.FirstEpoch)
}

// earlyEpoch is the error of a store whose first epoch is not above all earlier epochs of its node.
func earlyEpoch(last id.Epoch) string {
	return fmt.Sprintf("an earlier store of the node had epoch %d: the clock of this node is behind, or was when it first started; "+
		"set it, and start the node with an empty data directory", last)
}

// ForgottenStore is the error of a node that was taken out of the cluster with its store.
func ForgottenStore(n id.NodeID) string {
	return fmt.Sprintf("node %q was taken out of the cluster, and the store that it had never comes back; "+
		"start it with an empty data directory: then it joins as a new node", n)
}

// CannotHave returns why a registered node cannot have a store; "" if it can. If the store is
// fresh, a registration since its first epoch was its own.
func (n *Node) CannotHave(s id.StoreID, fresh bool, first id.Epoch) string {
	const remedy = "if that one is lost for good, give it up with `quoratectl nodes replace %s` and this node comes in by itself; " +
		"else start it with the old one"
	switch {
	case s == n.Store:
		return ""
	case n.Vacant && (!fresh || s == n.Former):
		return fmt.Sprintf("store %q of node %q was replaced and never comes back; start the node with an empty data directory", s, n.ID)
	case n.Vacant, n.Store == "" && (!fresh || first <= n.Epoch):
		return ""
	case n.Store == "": // it registered before stores had names
		return fmt.Sprintf("the data directory of node %q is new (store %q), but the cluster knows the node with an earlier one, and counts on what "+
			"that has stored: "+remedy, n.ID, s, n.ID)
	}
	return fmt.Sprintf("node %q comes with store %q, but the cluster knows it with store %q, and counts on what that has stored: "+remedy,
		n.ID, s, n.Store, n.ID)
}

// Refuses returns why a node with a store must not be accepted: it was forgotten, or is registered with another
// store. It returns "" for other nodes. A store is fresh while no catalog has accepted it; "" comes from a build
// without stores (RE-9).
func (v *View) Refuses(n id.NodeID, s id.StoreID, fresh bool) string {
	r, known := v.nodes.get(n)
	gone, was := v.forgotten.get(n)
	switch {
	case known && s == "" && (r.Store != "" || r.Vacant):
		return fmt.Sprintf("node %q does not say which store it has, as it must in this cluster: start it with a build of the cluster's version", n)
	case known:
		return r.CannotHave(s, fresh, 0)
	case was && (s == "" || !fresh || s == gone.store):
		return ForgottenStore(n)
	}
	return ""
}

// forgetNode removes a node that holds no member. Queues that end with it, transient or exclusive, are deleted. From
// VersionStores on its store is remembered, so that an old copy of its data never comes back (RE-9).
func (v *View) forgetNode(c *ForgetNode) (Reply, *Error) {
	old, known := v.nodes.get(c.ID)
	if !known {
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
	if v.version < VersionStores {
		v.forgotten = v.forgotten.set(c.ID, &forgotten{})
		return Reply{Deleted: true}, nil
	}
	v.forgotten = v.forgotten.set(c.ID, &forgotten{old.Epoch, old.Store})
	v.leave(c.ID)
	return Reply{Deleted: true}, nil
}

// checkMembers checks the members of a group: at least one, all different and registered, with the
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
