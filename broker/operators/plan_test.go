package operators

import (
	"fmt"
	"slices"
	"testing"

	"github.com/quorate/quorate/catalog"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/cluster/placement"
	"github.com/quorate/quorate/id"
)

// planned returns a view with the queues one, with its only member on a, and two, with members on a
// and b.
func planned(t *testing.T) (v *catalog.View, one, two *catalog.QueueRecord) {
	t.Helper()
	c := catalog.New()
	apply := func(cmd catalog.Command) {
		t.Helper()
		if r := c.Apply(c.View().Index()+1, 1, cmd); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	for _, n := range []id.NodeID{"a", "b", "c"} {
		apply(&catalog.RegisterNode{ID: n, Epoch: 1})
	}
	for q, members := range map[string][]id.NodeID{"one": {"a"}, "two": {"a", "b"}} {
		apply(&catalog.DeclareQueue{VHost: "/", Name: q, Type: catalog.QueueQuorum, Durable: true, Members: members, Leader: "a"})
	}
	v = c.View()
	one, _ = v.Queue("/", "one")
	two, _ = v.Queue("/", "two")
	return v, one, two
}

// A plan has a line for each change, and for each queue that is refused or lost.
func TestPlans(t *testing.T) {
	v, one, two := planned(t)
	for _, row := range []struct {
		name string
		plan Plan
		want []string
	}{
		{"leave", planLeave(v, membership.QueueFilter{}, "a", false), []string{
			`queue "one" in vhost "/": node "a" is the last member and stays`,
			`queue "two" in vhost "/": node "a" leaves, 1 of 2 members stay`,
		}},
		{"leave, replaced", planLeave(v, membership.QueueFilter{Name: "o*"}, "a", true), []string{
			`queue "one" in vhost "/": node "a" leaves, another node takes its place if there is one`,
		}},
		{"leave where it is no member", planLeave(v, membership.QueueFilter{}, "c", true), nil},
		{"add", planChange(ChangeMember{VHost: "/", Queue: "one", To: "b"}), []string{`queue "one" in vhost "/": node "b" becomes a member`}},
		{"remove", planChange(ChangeMember{VHost: "/", Queue: "two", From: "b"}), []string{
			`queue "two" in vhost "/": node "b" leaves, its copy of the messages is deleted`,
		}},
		{"rebuild", planChange(ChangeMember{VHost: "/", Queue: "two", From: "b", To: "b"}), []string{
			`queue "two" in vhost "/": node "b" deletes its copy of the messages and receives it anew from the others`,
		}},
		{"replace a member", planChange(ChangeMember{VHost: "/", Queue: "two", From: "b", To: "c"}), []string{
			`queue "two" in vhost "/": node "c" becomes a member, then node "b" leaves and its copy of the messages is deleted`,
		}},
		{"replace a node", planReplacement(&membership.Replacement{
			Node: "a", Keep: 3, Short: []*catalog.QueueRecord{two}, Alone: []*catalog.QueueRecord{one},
		}), []string{
			`REFUSED: queue "two" in vhost "/" has no majority without node "a"`,
			`LOST: queue "one" in vhost "/" is deleted with its messages, no other node has a copy (--accept-loss)`,
			`3 queues have a majority without node "a"; its members are built anew from the others`,
			`node "a" comes in when it is started with an empty data directory; its old disk never comes back`,
		}},
		{"replace a node that waits", planReplacement(&membership.Replacement{Node: "a", Waits: true}), []string{
			`0 queues have a majority without node "a"; its members are built anew from the others`,
			`node "a" waits with an empty data directory and comes in by itself`,
		}},
		{"replace what is given up", planReplacement(&membership.Replacement{Node: "a", Vacant: true, Keep: 3}), []string{
			`node "a": what it had stored was given up already; it comes in with an empty data directory`,
		}},
		{"remove a node", planRemoval(v, "a", &membership.Removal{
			Last: []*catalog.QueueRecord{one}, End: 2,
			Moves: []placement.Move{{Group: two.UID, Join: "c"}, {Group: two.UID}, {Group: two.UID + 99, Join: "c"}},
		}), []string{
			`REFUSED: queue "one" in vhost "/" has its only member on node "a", and no other node can take its place`,
			`queue "two" in vhost "/": node "c" becomes a member, then node "a" leaves`,
			`queue "two" in vhost "/": node "a" leaves, no other node is free: 1 of 2 members stay`,
			`2 queues end with node "a": they are not durable, or exclusive to a connection there`,
			`node "a" drains, leads nothing any more, and is forgotten; it comes back only with an empty data directory`,
		}},
	} {
		if !slices.Equal(row.plan.Lines, row.want) || row.plan.Total != len(row.want) {
			t.Errorf("%s: %d lines\n%q, want\n%q", row.name, row.plan.Total, row.plan.Lines, row.want)
		}
	}
}

// A plan keeps MaxPlanLines lines and counts the others.
func TestPlanIsBounded(t *testing.T) {
	var p Plan
	for i := range MaxPlanLines + 5 {
		p.Add("line %d", i)
	}
	if p.Total != MaxPlanLines+5 || len(p.Lines) != MaxPlanLines || p.Lines[MaxPlanLines-1] != fmt.Sprintf("line %d", MaxPlanLines-1) {
		t.Errorf("%d of %d lines", len(p.Lines), p.Total)
	}
}

// The text of a filter names the queues that the filter chooses.
func TestQueueFilterText(t *testing.T) {
	for f, want := range map[QueueFilter]string{
		{}: "all queues", {VHost: "v"}: `all queues in vhost "v"`, {Pattern: "o*"}: `queues "o*"`, {VHost: "v", Pattern: "o*"}: `queues "o*" in vhost "v"`,
	} {
		if got := f.String(); got != want {
			t.Errorf("%+v: %s, want %s", f, got, want)
		}
	}
}
