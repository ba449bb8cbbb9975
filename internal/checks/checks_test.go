package checks

import (
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
)

// A problem of a queue names it, and says what package majority says.
func TestCritical(t *testing.T) {
	q := client.QueueInfo{Name: "q", VHost: "/", Members: []string{"a", "b"}, Online: []string{"a"}}
	want := Problem{"quorum-critical", `queue "q" in vhost "/"`, `it stands still: of its members ["a" "b"] only ["a"] are there`, "start the other nodes"}
	if p, is := Critical(q, "b"); !is || p != want {
		t.Errorf("%+v, %v", p, is)
	}
	q.Online = []string{"a", "b"}
	if p, is := Critical(q, "c"); is {
		t.Errorf("%+v", p)
	}
}

func TestChecksOfNodes(t *testing.T) {
	done := &client.StartProgress{Phase: started}
	fine := func(id string) client.ClusterNode {
		return client.ClusterNode{
			ID: id, Alive: true, Start: done, Version: "1.0.0", ReadsVersion: 5,
			Disk: &client.DiskStatus{Pressure: "none"}, Clock: &client.ClockStatus{Offset: time.Millisecond},
		}
	}
	of := func(nodes ...client.ClusterNode) *Look {
		return &Look{Status: client.ClusterStatus{CatalogLeader: "a", FinalizedVersion: 5, Nodes: nodes}}
	}
	expect := func(what string, found []Problem, want ...string) {
		t.Helper()
		var got []string
		for _, p := range found {
			if p.Remedy == "" {
				t.Errorf("%s: no remedy for %q", what, p.Problem)
			}
			got = append(got, p.Object+": "+p.Problem)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	all := of(fine("a"), fine("b"))
	lost := fine("b")
	lost.LostMembers = 7
	rebuilding := of(fine("a"), lost)
	expect("members to be built anew", rebuilding.Rebuilding(), "node b: 7 of its members have lost what they had stored, and are not built anew yet")
	mute := fine("b")
	mute.Connected, mute.Start = true, nil
	expect("who does not answer", of(fine("a"), mute).Rebuilding(), "node b: it does not answer whether its members have what they had stored")
	rebuilding.Node = "b"
	expect("the node itself goes", rebuilding.Rebuilding())
	expect("all is well", slices.Concat(all.Ready(), all.Alarms(), all.Versions()))

	down, drains, silent := fine("b"), fine("c"), fine("d")
	down.Alive, down.Start, down.Disk, down.Clock = false, nil, nil, nil
	drains.Draining = true
	silent.Start = nil
	l := of(fine("a"), down, drains, silent)
	l.Status.CatalogLeader = ""
	expect("ready", l.Ready(), "node b: it is down", "node c: it is draining", "node d: it is silent", "catalog: it has no leader: nothing can be declared")
	l.Status.CatalogLeader, l.Node = "a", "c"
	expect("one node", l.Ready(), "node c: it is draining")

	full, early := fine("b"), fine("c")
	full.Disk = &client.DiskStatus{Pressure: "low", Path: "/data", FreeBytes: 7, LowBytes: 100, FloorBytes: 10, Hangs: 2 * time.Second}
	early.Clock = &client.ClockStatus{Offset: time.Minute, Off: true}
	expect("alarms", of(fine("a"), full, early).Alarms(), "node b: 7 bytes are free on /data, which is below its limit low (100 bytes)",
		"node b: a write to /data hangs for 2s", "node c: its wall clock is 1m0s off")

	newer := fine("b")
	newer.Version, newer.ReadsVersion = "1.1.0", 6
	expect("versions", of(fine("a"), newer).Versions(), `cluster: nodes run ["1.0.0" "1.1.0"]`, "cluster: version 5 is finalised, nodes can read 6")
}

// A node that does not answer keeps others from being taken down, and not itself.
func TestSilent(t *testing.T) {
	for node, want := range map[string]string{
		"": "client: the listing is incomplete; these nodes did not answer: a, b", "a": "client: the listing is incomplete; these nodes did not answer: b",
		"c": "client: the listing is incomplete; these nodes did not answer: a, b",
	} {
		if found := (&Look{Node: node}).silent([]string{"a", "b"}); len(found) != 1 || found[0].Problem != want {
			t.Errorf("%q is to be taken down: %+v, want %q", node, found, want)
		}
	}
	if found := (&Look{Node: "a"}).silent([]string{"a"}); found != nil {
		t.Errorf("the only silent node is the one that is to be taken down: %+v", found)
	}
}
