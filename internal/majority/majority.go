// Package majority judges whether a cluster can do without one node more. The answers of quoratectl, the operator of
// Kubernetes and the HTTP API come from here, so that they never differ.
package majority

import (
	"fmt"
	"slices"
)

// Finding is a reason against taking a node down, and what helps.
type Finding struct {
	Problem string // a sentence without the name of the queue or node
	Remedy  string
}

// OfQueue reports whether a queue stands still, or would without the node; with "", without any one node. online are those
// of its members that are there and vote.
func OfQueue(members, online []string, node string) (f Finding, critical bool) {
	majority := len(members)/2 + 1
	switch spare := len(online) - majority; {
	case spare < 0:
		f.Problem = fmt.Sprintf("it stands still: of its members %q only %q are there", members, online)
		f.Remedy = "start the other nodes"
	case spare > 0, node != "" && !slices.Contains(online, node):
		return f, false
	case len(members) == 1:
		f.Problem = fmt.Sprintf("its only member is on node %q", members[0])
		f.Remedy = "give it more members: see quoratectl queues grow"
	default:
		f.Problem = fmt.Sprintf("it stands still without one more of %q", online)
		f.Remedy = fmt.Sprintf("take down none of them before all of %q are there", members)
	}
	return f, true
}

// Node is what is known of a node's members.
type Node struct {
	Name      string
	Connected bool // queues count its members as online, unless it says that they are lost
	Answers   bool // it has said Lost
	Lost      uint64
}

// OfNode reports whether members on a node do not count, or may not count, although the node is there: Lost of them
// have lost what they had stored and are not rebuilt yet. Members of goes, the node to be taken down, do not matter;
// "" stands for any one node.
func OfNode(n Node, goes string) (f Finding, critical bool) {
	switch {
	case n.Name == goes:
	case n.Lost > 0:
		f.Problem = fmt.Sprintf("%d of its members have lost what they had stored, and are not built anew yet", n.Lost)
		f.Remedy = "take down no other node before quorate_log_groups_lost is 0 there; the node's log says why if it stays"
	case n.Connected && !n.Answers:
		f.Problem = "it does not answer whether its members have what they had stored"
		f.Remedy = "look at its log, its load and the network, and ask again"
	}
	return f, f != Finding{}
}
