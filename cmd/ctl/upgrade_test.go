package main

import (
	"strings"
	"testing"

	"github.com/quorate/quorate/client"
)

// The next step is named in each phase of a roll, forward and back.
func TestUpgradeProgress(t *testing.T) {
	started := &client.StartProgress{Phase: "started"}
	node := func(id, build string, reads uint32) client.ClusterNode {
		return client.ClusterNode{ID: id, Alive: true, Version: build, Start: started, ReadsVersion: reads}
	}
	down := client.ClusterNode{ID: "b", Version: "1.0.0"}
	starting := node("b", "1.1.0", 6)
	starting.Start = &client.StartProgress{Phase: "replay"}
	for _, row := range []struct {
		what     string
		nodes    []client.ClusterNode
		readable uint32
		next     string
	}{
		{"one build", []client.ClusterNode{node("a", "1.0.0", 5), node("b", "1.0.0", 5)}, 5, "nothing"},
		{"the first node is new", []client.ClusterNode{node("a", "1.1.0", 6), node("b", "1.0.0", 5)}, 5, `nodes run ["1.0.0" "1.1.0"]: take the next node`},
		{"a node is down", []client.ClusterNode{node("a", "1.1.0", 6), down}, 0, `["b (down)"]`},
		{"a node starts", []client.ClusterNode{node("a", "1.1.0", 6), starting}, 6, `["b (replay)"]`},
		{"all are new", []client.ClusterNode{node("a", "1.1.0", 6), node("b", "1.1.0", 6)}, 6, "quoratectl upgrade finalize"},
		{"a build of before versions", []client.ClusterNode{node("a", "1.1.0", 6), node("b", "0.1.0", 0)}, 1, "take the next node"},
	} {
		u := progressOf(client.ClusterStatus{FinalizedVersion: 5, Nodes: row.nodes})
		if u.Readable != row.readable || !strings.Contains(u.Next, row.next) || !strings.Contains(u.WayBack, "version 5") || len(u.Nodes) != len(row.nodes) {
			t.Errorf("%s: %+v, want readable %d and next %q", row.what, u, row.readable, row.next)
		}
	}
	if u := progressOf(client.ClusterStatus{}); u.Finalized != 1 {
		t.Errorf("a node of before versions has finalised %d, want 1", u.Finalized)
	}
}
