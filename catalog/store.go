package catalog

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/quorate/quorate/id"
)

// A node's member of the catalog group may have voted, or answered for entries. If its store, or
// its log alone, is lost, an empty member must not act in its place before the group continues
// without it. The catalog records which members must leave: LeaveCatalog, ReplaceNode, ForgetNode
// and RegisterNode add a node to that record, the group's leader removes the member from the
// configuration and reports that by NodeOut, and only then an empty member may begin (RE-9).

// LeaveCatalog asks to remove a node's member from the catalog group, because the member is empty
// or must not act with what it has: its log is lost, damaged, or cannot be applied.
//
// The node itself proposes it, repeatedly, with what its data directory holds: Since is the index
// from which on its member may have begun, as answered to the last LeaveCatalog. While the member
// is in the group, the reply has Deleted false, and the node asks again. With Deleted true the
// member is out. Then the node stores the reply's Index durably, deletes the member's data, and
// begins an empty member, which first receives the log without a vote. In between it must neither
// vote nor answer for entries.
type LeaveCatalog struct {
	ID    id.NodeID
	Store id.StoreID // as it is registered
	Since uint64
}

// NodeOut reports that the committed configuration of the catalog group has no member of a node.
// The group's leader proposes it; Since is the index in View.Leaving. If the node is not leaving
// since that index, it changes nothing.
type NodeOut struct {
	ID    id.NodeID
	Since uint64
}

// ReplaceNode gives a node's store up for good: a fresh one may register in its place. The node's
// members of queues count as lost: none of them votes before it is rebuilt. Queues of which it is
// the only member are lost; AcceptLoss must allow their deletion.
//
// Epoch is the node's epoch in the view on which the decision was based. If another life of the
// node has registered since, or the store was given up already, it changes nothing.
type ReplaceNode struct {
	ID         id.NodeID
	Epoch      id.Epoch
	AcceptLoss bool
}

func (c *LeaveCatalog) append(b []byte) []byte {
	return binary.AppendUvarint(appendString(appendString(b, c.ID), c.Store), c.Since)
}

func (c *NodeOut) append(b []byte) []byte {
	return binary.AppendUvarint(appendString(b, c.ID), c.Since)
}

func (c *ReplaceNode) append(b []byte) []byte {
	return appendBool(binary.AppendUvarint(appendString(b, c.ID), uint64(c.Epoch)), c.AcceptLoss)
}

// leave records that a node's member must leave the catalog group.
func (v *View) leave(n id.NodeID) {
	if _, leaves := v.leaving.get(n); !leaves {
		v.leaving = v.leaving.set(n, v.index)
	}
}

// leaveCatalog records that the node's member must leave, or reports that it has left since the node last asked. Out
// above Since proves that: the configuration lost the member after that point.
func (v *View) leaveCatalog(c *LeaveCatalog) (Reply, *Error) {
	n, known := v.nodes.get(c.ID)
	e := Error{Code: CodePreconditionFailed, Kind: "node", Name: string(c.ID), Arg: "store"}
	switch {
	case !known:
		e.Reason = "the node is not registered in the cluster"
		return Reply{}, &e
	case n.Store != c.Store:
		e.Value, e.Reason = string(c.Store), cmp.Or(n.CannotHave(c.Store, false, 0), "the node has to register with it first")
		return Reply{}, &e
	case n.Out > c.Since:
		return Reply{Deleted: true}, nil
	}
	v.leave(c.ID)
	return Reply{}, nil
}

// nodeOut ends the leaving that began at Since. A report of an earlier leaving changes nothing.
func (v *View) nodeOut(c *NodeOut) (Reply, *Error) {
	if since, leaves := v.leaving.get(c.ID); !leaves || since != c.Since {
		return Reply{}, nil
	}
	v.leaving = v.leaving.without(c.ID)
	if old, known := v.nodes.get(c.ID); known {
		n := *old
		n.Out = v.index
		v.nodes = v.nodes.set(c.ID, &n)
	}
	return Reply{Deleted: true}, nil
}

// replaceNode gives the store up: deletes the queues that nobody else holds, records the lost members of the others,
// and leaves the node vacant for a fresh store (RE-9). All checks come before the first change.
func (v *View) replaceNode(c *ReplaceNode) (Reply, *Error) {
	old, known := v.nodes.get(c.ID)
	e := Error{Code: CodePreconditionFailed, Kind: "node", Name: string(c.ID)}
	switch {
	case !known:
		e.Code, e.Reason = CodeNotFound, "no such node in the cluster"
		return Reply{}, &e
	case old.Vacant || old.Epoch > c.Epoch:
		return Reply{}, nil
	case old.Epoch < c.Epoch:
		e.Arg, e.Reason = "epoch", fmt.Sprintf("%d, the node's is %d", c.Epoch, old.Epoch)
		return Reply{}, &e
	}
	ends := func(q *QueueRecord) bool { return q.endsWith(c.ID, math.MaxUint64) }
	var alone, others []*QueueRecord
	for q := range v.Queues() {
		switch {
		case ends(q):
		case len(q.Members) == 1 && q.Members[0] == c.ID:
			alone = append(alone, q)
		default:
			others = append(others, q)
		}
	}
	if len(alone) > 0 && !c.AcceptLoss {
		e.Reason = fmt.Sprintf("is the only member of %d queues, the first is queue %q in vhost %q; their messages are nowhere else: "+
			"accept that they are lost", len(alone), alone[0].Name, alone[0].VHost)
		return Reply{}, &e
	}
	v.endLives(ends)
	for _, q := range alone {
		_, _ = v.deleteQueue(&DeleteQueue{VHost: q.VHost, Name: q.Name, UID: q.UID})
	}
	for _, q := range others {
		v.loseMember(q, c.ID)
	}
	n := *old
	n.Store, n.Vacant, n.Former, n.Out = "", true, old.Store, 0
	v.nodes = v.nodes.set(c.ID, &n)
	v.leave(c.ID)
	return Reply{Deleted: true}, nil
}

// loseMember records that a node has lost its member of a queue. From now on no node may found the
// group that may have forgotten it (FoundersSince), and its empty member counts as lost. A joining node stops joining, because it may
// have received its vote already.
func (v *View) loseMember(old *QueueRecord, n id.NodeID) {
	q := *old
	joining := q.Change != nil && q.Change.Join == n && q.Change.Leave != n
	if !joining && !slices.Contains(q.Members, n) {
		return
	}
	q.Changed = v.index
	if joining && !q.Change.Cancelled {
		next := *q.Change
		next.Cancelled = true
		q.Change = &next
	}
	v.replaceQueue(&q)
}
